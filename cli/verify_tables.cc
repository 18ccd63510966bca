// SPDX-License-Identifier: Apache-2.0
#include "cli/verify_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "cli/numbers.h"
#include "cli/table.h"
#include "codec/error.h"

namespace gradcodec {
namespace {

bool is_linear(const Finding& finding) { return finding.name.rfind("linear", 0) == 0 && finding.name != "linear x"; }
bool is_lag(const Finding& finding) { return finding.name.rfind("lag", 0) == 0; }
bool is_ratio(const Finding& finding) { return finding.name == "variance" || finding.name == "var |x|"; }

// Of the findings that `belongs` picks, the one to show for all: a broken one, else the one nearest to its bound.
template <typename Belongs>
const Finding* worst_of(const TensorFindings& findings, Belongs belongs) {
  const Finding* worst = nullptr;
  const auto nearness = [](const Finding& f) {
    if (f.verdict == Verdict::broken) return std::numeric_limits<double>::infinity();
    return std::isnan(f.measured) ? -1.0 : std::fabs(f.measured) / f.bound;
  };
  for (const Finding& finding : findings.findings) {
    if (finding.verdict == Verdict::not_covered || finding.verdict == Verdict::approximate || !belongs(finding))
      continue;
    if (worst == nullptr || nearness(finding) > nearness(*worst)) worst = &finding;
  }
  return worst;
}

std::string verdict_text(const Finding& finding, bool one_message) {
  if (finding.verdict != Verdict::undecided || one_message) return std::string(verdict_name(finding.verdict));
  if (finding.trials_needed == 0) return "undecided (no R)";
  return "undecided (R " + std::to_string(finding.trials_needed) + ")";
}

std::string cell(double value) { return std::isnan(value) ? "" : short_number(value, 4); }

// Ratios are shown as what they are off by, as their smallest effects and margins are.
std::vector<std::string> row_of(const Finding& finding, const std::string& promise, bool one_message) {
  const double base = is_ratio(finding) ? 1 : 0;
  const std::string interval =
      std::isnan(finding.low) ? "" : "[" + cell(finding.low - base) + ", " + cell(finding.high - base) + "]";
  return {promise,
          verdict_text(finding, one_message),
          cell(finding.measured - base),
          cell(finding.bound - base),
          cell(finding.smallest),
          cell(finding.margin),
          interval};
}

std::string head_of(const TensorFindings& f) {
  std::string text = finding_title(f) + ": " + with_commas(f.size) + " values, R = " + with_commas(f.trials);
  if (!std::isnan(f.variance) && f.norm > 0) {
    text += ", error " + short_number(f.variance / f.norm / f.norm, 4) + " of ||x||^2";
  }
  if (!std::isnan(f.effective)) text += ", carried by " + with_commas(static_cast<uint64_t>(std::llround(f.effective)));
  if (!std::isnan(f.resolution)) text += ", float32 adds " + short_number(f.resolution, 2) + " of ||x||";
  if (!std::isnan(f.moved)) {
    text += "; of clipped values: clipping moves " + short_number(f.moved, 3) + " of the energy, a bias of " +
            short_number(f.moved_along, 3) + " along x";
  }
  return text;
}

// What the table leaves out, by reason, and why what is broken is.
void print_notes(const TensorFindings& findings) {
  std::vector<std::pair<std::string, std::string>> reasons;  // and what they are reasons of
  for (const Finding& finding : findings.findings) {
    if (finding.verdict == Verdict::broken && !finding.note.empty()) {
      std::printf("broken: %s: %s\n", finding.promise.c_str(), escaped(finding.note).c_str());
    }
    if (finding.verdict != Verdict::not_covered) continue;
    const auto same =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& reason) { return reason.first == finding.note; });
    if (same == reasons.end()) {
      reasons.emplace_back(finding.note, finding.name);
    } else {
      same->second += ", " + finding.name;
    }
  }
  for (const auto& [reason, names] : reasons) {
    std::printf("not covered: %s (%s)\n", names.c_str(), escaped(reason).c_str());
  }
}

}  // namespace

std::string cause_of(const std::string& check, bool one_message) {
  const auto put = [&]() -> std::string {
    if (check == "exact") return "bytes are not carried as they are";
    if (check == "parameters") return "parameters were chosen otherwise than this scheme does";
    if (check == "decoder") return "encoder and decoder disagree";
    if (check == "overload") return "the stored scale is too small for the values";
    if (check == "support") {
      return "the decoder works with another scale, or other random numbers, than the encoder";
    }
    if (check == "subset") return "elements are drawn one by one, not so many of all";
    if (check == "transform") return "the transform is not undone as it was done";
    if (check == "variance bound" || check == "contraction" || check == "inner product") {
      return "the scheme promises more than its parameters can keep";
    }
    if (check == "bias overall" || check == "coordinate" || check.rfind("linear", 0) == 0) {
      return "rounding is biased, or messages or stages share random numbers";
    }
    if (check == "variance") return "the dither is not of the size that the law says";
    if (check.rfind("lag", 0) == 0) return "random numbers repeat, or depend on each other, at this distance";
    if (check == "between tensors") return "tensors share random numbers";
    if (check == "uniformity") return "the dither is not uniform";
    return "the size of the error depends on the value";
  };
  return one_message ? "the file was made from another dump, or with other parameters; else " + put() : put();
}

const Finding* find_check(const TensorFindings& findings, std::string_view name) {
  const auto found = std::find_if(findings.findings.begin(), findings.findings.end(),
                                  [&](const Finding& finding) { return finding.name == name; });
  return found == findings.findings.end() ? nullptr : &*found;
}

std::string finding_title(const TensorFindings& findings) {
  return escaped(findings.tensor) + (findings.stage.empty() ? "" : ", " + findings.stage);
}

void print_findings(const TensorFindings& findings, bool all, bool one_message) {
  std::printf("%s\n", head_of(findings).c_str());
  std::vector<std::vector<std::string>> rows = {
      {"promise", "verdict", "measured", "bound", "smallest found", "margin", "interval"}};
  const Finding* linear = worst_of(findings, is_linear);
  const Finding* lag = worst_of(findings, is_lag);
  for (const Finding& finding : findings.findings) {
    if (finding.verdict == Verdict::not_covered) continue;
    const bool grouped = is_linear(finding) || is_lag(finding);
    if (all || !grouped) {
      rows.push_back(row_of(finding, finding.promise, one_message));
    } else if (&finding == linear || &finding == lag) {
      rows.push_back(row_of(finding, finding.promise + ", worst", one_message));
    }
  }
  if (rows.size() > 1) print_table(rows, 2);
  print_notes(findings);
  if (const Finding* reason = findings.reason()) {
    std::printf("%s is broken, by '%s': most likely %s\n", finding_title(findings).c_str(), reason->name.c_str(),
                cause_of(reason->name, one_message).c_str());
  }
  std::printf("\n");
}

std::vector<std::string> finding_heading() {
  return {"tensor", "verdict", "values", "error / ||x||^2", "bias along x", "variance off by"};
}

std::vector<std::string> finding_line(const TensorFindings& f, bool one_message) {
  const Finding* slope = find_check(f, "linear x");
  const Finding* variance = find_check(f, "variance");
  const Finding* open = worst_of(f, [](const Finding& finding) { return finding.verdict == Verdict::undecided; });
  const bool tested = std::any_of(f.findings.begin(), f.findings.end(),
                                  [](const Finding& finding) { return finding.verdict != Verdict::not_covered; });
  const bool open_law = slope != nullptr && slope->verdict == Verdict::approximate;
  return {finding_title(f),
          !tested           ? "not covered"
          : open_law        ? "approximate"
          : open == nullptr ? "kept"
                            : verdict_text(*open, one_message),
          with_commas(f.size),
          f.norm > 0 ? cell(f.variance / f.norm / f.norm) : "",
          slope == nullptr ? "" : cell(slope->measured),
          variance == nullptr ? "" : cell(variance->measured - 1)};
}

}  // namespace gradcodec
