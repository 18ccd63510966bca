// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

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
      : laws_(evidence.laws),
        sums_(evidence.sums),
        promise_(evidence.promise),
        options_(evidence.options),
        transforms_(evidence.transforms) {}

  std::vector<Finding> all() {
    out_.push_back(
        proof("parameters", "stored parameters canonical", sums_.parameters_fault.empty(), sums_.parameters_fault));
    constexpr std::string_view kDecoder = "decoded values have the encoder's digest";
    out_.push_back(options_.knows_encoder ? proof("decoder", kDecoder, sums_.decoder_fault.empty(), sums_.decoder_fault)
                                          : absent("decoder", kDecoder, "the file holds no digests"));
    if (transforms_) {
      out_.push_back(proof("transform", "what is transformed keeps its length, and comes back",
                           sums_.transform_fault.empty(), sums_.transform_fault));
    } else if (!sums_.transform_fault.empty()) {
      out_.push_back(proof("sum", "x' is what the parts decode to, added up", false, sums_.transform_fault));
    }
    overload();
    support();
    subset();
    variance_bound();
    contraction();
    inner_product();
    for (Finding& finding : out_) {
      if (std::isinf(finding.measured)) finding.measured = kAbsent;
    }
    return std::move(out_);
  }

 private:
  void overload() {
    constexpr std::string_view kPromise = "no value beyond the last level";
    if (laws_.unknown > 0) {
      out_.push_back(absent("overload", kPromise, "the scheme declares no law"));
      return;
    }
    std::string where;
    if (laws_.outside > 0) {
      where = std::to_string(laws_.outside) + " elements are, first " + std::to_string(*laws_.first_outside) + ", " +
              text_of(laws_.outside_norm2 / laws_.norm2) + " of the energy";
    } else if (sums_.outside > 0) {
      where = "elements are in some trials, first " + std::to_string(*sums_.first_outside);
    }
    if (!where.empty() && !options_.outside.empty()) {
      out_.push_back(absent("overload", kPromise, where + ": " + options_.outside));
      return;
    }
    out_.push_back(proof("overload", kPromise, where.empty(), where));
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
      const std::string unit = fault.vector ? " radii of its cell, the whole vector's" : " steps";
      finding.note = "element " + std::to_string(fault.index) + " in trial " + std::to_string(fault.trial) +
                     ": error " + text_of(fault.error) + ", " +
                     (fault.step == 0 ? "where none is allowed" : text_of(fault.error / fault.step) + unit);
    }
    out_.push_back(std::move(finding));
  }

  // Elements of another law (zeros, exceptions) may be among those drawn, or among those drawn from, unseen.
  void subset() {
    if (laws_.subsets == 0) return;
    const double all = laws_.largest_part * static_cast<double>(laws_.size());
    const double least = all - static_cast<double>(laws_.size() - laws_.subsets) - 0.5, most = all + 0.5;
    Finding finding = proof("subset", "as many elements drawn as declared", true);
    for (size_t r = 0; r < sums_.messages.size() && finding.verdict == Verdict::proved; ++r) {
      const auto drawn = static_cast<double>(sums_.messages[r].drawn);
      if (drawn >= least && drawn <= most) continue;
      finding.verdict = Verdict::broken;
      finding.note = text_of(drawn) + " elements are in trial " + std::to_string(r) + ", " + text_of(all) + " declared";
    }
    out_.push_back(std::move(finding));
  }

  void variance_bound() {
    constexpr std::string_view kPromise = "variance <= omega ||x||^2";
    if (!promise_) {
      out_.push_back(absent("variance bound", kPromise, options_.no_promise));
      return;
    }
    if (laws_.unknown > 0) {
      out_.push_back(absent("variance bound", kPromise, "the scheme declares no law"));
      return;
    }
    Finding finding = proof("variance bound", kPromise, true);
    // What is unbiased has no other part; what is not declares the whole of its error.
    const double whole = laws_.variance + (promise_->unbiased ? 0 : laws_.bias2);
    // Sums of the same terms in another order.
    if (promise_->variance && std::fabs(*promise_->variance - whole) > 1e-9 * whole) {
      finding.verdict = Verdict::broken;
      finding.note = "the scheme declares a variance of " + text_of(*promise_->variance) + ", its laws add up to " +
                     text_of(whole);
    } else if (promise_->omega) {
      finding.bound = *promise_->omega;
      finding.measured = largest_share([](const MessageSums& m) { return m.variance; }, laws_.variance);
      if (!(finding.measured <= finding.bound * (1 + 1e-9))) finding.verdict = Verdict::broken;
    } else {
      finding.verdict = Verdict::not_covered;
      finding.note = "no omega is promised";
    }
    // The means of laws are right to float64's rounding of their parts.
    if (promise_->unbiased && laws_.bias2 > 1e-20 * (laws_.norm2 + laws_.variance)) {
      finding.verdict = Verdict::broken;
      finding.note = "the scheme declares to be unbiased, its laws are not: ||E x' - x||^2 = " + text_of(laws_.bias2);
    }
    if (promise_->max_error && laws_.largest_error > *promise_->max_error * (1 + 1e-9)) {
      finding.verdict = Verdict::broken;
      finding.note = "an error may be " + text_of(laws_.largest_error) + ", the scheme declares at most " +
                     text_of(*promise_->max_error);
    }
    out_.push_back(std::move(finding));
  }

  // The largest part of ||x||^2 over all messages, where each may have another; else of the laws that all have.
  // Infinite if any is no number.
  template <typename Of>
  double largest_share(Of of, double of_laws) const {
    double out = laws_.norm2 > 0 ? of_laws / laws_.norm2 : 0;
    for (const MessageSums& message : sums_.messages) {
      const double share = message.norm2 > 0 ? of(message) / message.norm2 : 0;
      out = std::isnan(share) ? std::numeric_limits<double>::infinity() : std::max(out, share);
    }
    return out;
  }

  // Where a transform's draws are part of what is expected: the mean over messages of the share of ||x||^2 that each
  // one's laws say, as far as it is below 1. Of such numbers the mean of R is above its expectation by t with a
  // probability of at most exp(-2 R t^2) (Hoeffding). No law is uniform here, so this has the level of the test that is
  // for those.
  void mean_contraction(std::string_view name) {
    Finding finding = proof(name, "mean error <= (1 - delta) ||x||^2", true);
    double sum = 0;
    for (const MessageSums& message : sums_.messages) {
      const double share = message.norm2 > 0 ? (message.variance + message.bias2) / message.norm2 : 0;
      sum += std::isnan(share) ? 1 : std::min(1.0, share);
    }
    const auto count = static_cast<double>(std::max<size_t>(1, sums_.messages.size()));
    const double ln = -std::log(options_.level), reach = std::sqrt(ln / (2 * count));
    finding.bound = 1 - *promise_->delta;
    finding.measured = sum / count;
    finding.low = std::max(0.0, finding.measured - reach);
    finding.high = finding.measured + reach;
    finding.verdict = finding.low > finding.bound     ? Verdict::broken
                      : finding.high <= finding.bound ? Verdict::kept
                                                      : Verdict::undecided;
    const double room = finding.bound - finding.measured;
    if (finding.verdict == Verdict::undecided && room > 0) {
      const double needed = std::ceil(ln / (2 * room * room));
      finding.trials_needed = needed <= static_cast<double>(kManyTrials) ? static_cast<uint64_t>(needed) : 0;
    }
    out_.push_back(std::move(finding));
  }

  // In closed form where there are laws; of each message where it is promised for each.
  void contraction() {
    if (!promise_ || !promise_->delta) return;
    constexpr std::string_view kName = "contraction", kPromise = "error <= (1 - delta) ||x||^2";
    if (laws_.unknown > 0 && !promise_->projection) {
      out_.push_back(absent(kName, kPromise, "the scheme declares no law, and it is promised of the mean alone"));
      return;
    }
    if (transforms_ && !promise_->unbiased && !promise_->projection && laws_.uniforms == 0) {
      return mean_contraction(kName);
    }
    Finding finding = proof(kName, kPromise, true);
    finding.bound = 1 - *promise_->delta;
    finding.measured = 0;
    if (laws_.unknown == 0) {
      finding.measured =
          largest_share([](const MessageSums& m) { return m.variance + m.bias2; }, laws_.variance + laws_.bias2);
    }
    if (promise_->projection) {
      finding.measured = std::max(finding.measured, largest_share([](const MessageSums& m) { return m.e2; }, 0));
    }
    if (!(finding.measured <= finding.bound * (1 + 0x1p-20))) finding.verdict = Verdict::broken;
    out_.push_back(std::move(finding));
  }

  void inner_product() {
    if (!promise_ || !promise_->inner_product) return;
    Finding finding = proof("inner product", "<x', x> = ||x||^2 in each message (part of it)", true);
    finding.bound = *promise_->inner_product;
    finding.measured = largest_share([](const MessageSums& m) { return std::fabs(m.along); }, 0);
    if (!(finding.measured <= finding.bound)) finding.verdict = Verdict::broken;
    out_.push_back(std::move(finding));
  }

  const LawSums& laws_;
  const ErrorSums& sums_;
  const std::optional<Promise>& promise_;
  const CheckOptions& options_;
  const bool transforms_;
  std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> findings_without_chance(const Evidence& evidence) { return Proofs(evidence).all(); }

}  // namespace gradcodec
