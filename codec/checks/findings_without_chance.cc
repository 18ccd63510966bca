// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>

#include "codec/checks/evidence.h"

namespace gradcodec {
namespace {

std::string text_of(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4).ptr;
  return {text.data(), end};
}

class Proofs {
 public:
  explicit Proofs(const Evidence& evidence)
      : laws_(evidence.laws), sums_(evidence.sums), promise_(evidence.promise), options_(evidence.options) {}

  std::vector<Finding> all() {
    out_.push_back(
        proof("parameters", "stored parameters canonical", sums_.parameters_fault.empty(), sums_.parameters_fault));
    constexpr std::string_view kDecoder = "decoded values have the encoder's digest";
    out_.push_back(options_.knows_encoder ? proof("decoder", kDecoder, sums_.decoder_fault.empty(), sums_.decoder_fault)
                                          : absent("decoder", kDecoder, "the file holds no digests"));
    overload();
    support();
    variance_bound();
    contraction();
    return std::move(out_);
  }

 private:
  bool uniform() const { return laws_.uniform(); }

  void overload() {
    constexpr std::string_view kPromise = "no value beyond the last level";
    if (laws_.unknown > 0) {
      out_.push_back(absent("overload", kPromise, "the scheme declares no law"));
      return;
    }
    const std::string where = laws_.outside == 0 ? ""
                                                 : std::to_string(laws_.outside) + " elements are, first " +
                                                       std::to_string(*laws_.first_outside) + ", " +
                                                       text_of(laws_.outside_norm2 / laws_.norm2) + " of the energy";
    if (laws_.outside > 0 && !options_.outside.empty()) {
      out_.push_back(absent("overload", kPromise, where + ": " + options_.outside));
      return;
    }
    out_.push_back(proof("overload", kPromise, laws_.outside == 0, where));
  }

  void support() {
    constexpr std::string_view kPromise = "each error within its law";
    if (laws_.unknown > 0) {
      out_.push_back(absent("support", kPromise, "the scheme declares no law"));
      return;
    }
    Finding finding = proof("support", kPromise, !sums_.fault);
    if (sums_.fault) {
      const SupportFault& fault = *sums_.fault;
      finding.note = "element " + std::to_string(fault.index) + " in trial " + std::to_string(fault.trial) +
                     ": error " + text_of(fault.error) + ", " +
                     (fault.step == 0 ? "where none is allowed" : text_of(fault.error / fault.step) + " steps");
    }
    out_.push_back(std::move(finding));
  }

  void variance_bound() {
    constexpr std::string_view kPromise = "variance <= omega ||x||^2";
    if (!promise_) {
      out_.push_back(absent("variance bound", kPromise, options_.no_promise));
      return;
    }
    Finding finding = proof("variance bound", kPromise, true);
    // Sums of the same terms in another order.
    if (promise_->variance && std::fabs(*promise_->variance - laws_.variance) > 1e-9 * laws_.variance) {
      finding.verdict = Verdict::broken;
      finding.note = "the scheme declares a variance of " + text_of(*promise_->variance) + ", its laws add up to " +
                     text_of(laws_.variance);
    } else if (promise_->omega) {
      finding.bound = *promise_->omega;
      finding.measured = laws_.norm2 > 0 ? laws_.variance / laws_.norm2 : 0;
      if (!(laws_.variance <= *promise_->omega * laws_.norm2 * (1 + 1e-9))) finding.verdict = Verdict::broken;
    } else {
      finding.verdict = Verdict::not_covered;
      finding.note = "no omega is promised";
    }
    // The means of laws are right to float64's rounding of their parts.
    if (promise_->unbiased && laws_.bias2 > 1e-20 * (laws_.norm2 + laws_.variance)) {
      finding.verdict = Verdict::broken;
      finding.note = "the scheme declares to be unbiased, its laws are not: ||E x' - x||^2 = " + text_of(laws_.bias2);
    }
    if (promise_->max_error && laws_.largest_step > 2 * *promise_->max_error * (1 + 1e-9) && uniform()) {
      finding.verdict = Verdict::broken;
      finding.note = "an error may be " + text_of(laws_.largest_step / 2) + ", the scheme declares at most " +
                     text_of(*promise_->max_error);
    }
    out_.push_back(std::move(finding));
  }

  void contraction() {
    if (!promise_ || !promise_->delta) return;
    Finding finding = proof("contraction", "error <= (1 - delta) ||x||^2", true);
    finding.bound = 1 - *promise_->delta;
    const double error = laws_.variance + laws_.bias2;
    finding.measured = laws_.norm2 > 0 ? error / laws_.norm2 : 0;
    if (!(error <= finding.bound * laws_.norm2 * (1 + 0x1p-20))) finding.verdict = Verdict::broken;
    out_.push_back(std::move(finding));
  }

  const LawSums& laws_;
  const ErrorSums& sums_;
  const std::optional<Promise>& promise_;
  const CheckOptions& options_;
  std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> findings_without_chance(const Evidence& evidence) { return Proofs(evidence).all(); }

}  // namespace gradcodec
