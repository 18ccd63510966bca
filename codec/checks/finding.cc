// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/finding.h"

#include <algorithm>
#include <cmath>

#include "codec/checks/evidence.h"

namespace gradcodec {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::broken:
      return "broken";
    case Verdict::undecided:
      return "undecided";
    case Verdict::kept:
      return "kept";
    case Verdict::proved:
      return "proved";
    case Verdict::below_resolution:
      return "below resolution";
    case Verdict::approximate:
      return "approximate";
    case Verdict::not_covered:
      break;
  }
  return "not covered";
}

const Finding* TensorFindings::reason() const {
  const auto found =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.verdict == Verdict::broken; });
  return found == findings.end() ? nullptr : &*found;
}

Finding proof(std::string_view name, std::string_view promise, bool kept, std::string note) {
  Finding out;
  out.name = name;
  out.promise = promise;
  out.verdict = kept ? Verdict::proved : Verdict::broken;
  out.note = std::move(note);
  return out;
}

Finding absent(std::string_view name, std::string_view promise, std::string note) {
  Finding out;
  out.name = name;
  out.promise = promise;
  out.note = std::move(note);
  return out;
}

TensorFindings ErrorCheck::findings() const {
  TensorFindings out;
  out.size = trials_.size();
  out.trials = trials_.count();
  out.norm = std::sqrt(laws_.norm2);
  out.variance = laws_.variance + (promise_ && !promise_->unbiased ? laws_.bias2 : 0);
  if (laws_.unknown > 0) out.variance = promise_ && promise_->variance ? *promise_->variance : kAbsent;
  if (laws_.quartic > 0) out.effective = laws_.variance * laws_.variance / laws_.quartic;
  if (laws_.norm2 > 0) out.resolution = std::sqrt(laws_.eta2 / laws_.norm2);
  const bool judged = laws_.twos + laws_.subsets > 0 && trials_.count() > 1 && !sums_.laws_vary;
  const Evidence evidence{laws_,
                          sums_,
                          promise_,
                          options_,
                          lags_,
                          trials_.size(),
                          trials_.count(),
                          judged ? &limits() : nullptr,
                          trials_.transforms()};
  out.findings = findings_without_chance(evidence);
  for (Finding& finding : laws_.unknown > 0 ? findings_without_law(evidence) : findings_of_chance(evidence)) {
    out.findings.push_back(std::move(finding));
  }
  return out;
}

}  // namespace gradcodec
