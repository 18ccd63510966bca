// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "codec/checks/evidence.h"

namespace gradcodec {
namespace {

constexpr std::string_view kNoLaw = "the scheme declares no law";
constexpr std::string_view kApproximate = "the scheme declares no law: an approximate 95 % interval";

// Mean of one number a message, its standard deviation from message to message (0 of one), and half the interval.
struct Mean {
  double value = 0, deviation = 0, half = kAbsent;
};

class Numbers {
 public:
  explicit Numbers(const Evidence& evidence)
      : messages_(evidence.sums.messages),
        sums_(evidence.sums),
        promise_(evidence.promise),
        level_(evidence.options.level),
        size_(evidence.size),
        r_(static_cast<double>(messages_.size())) {}

  std::vector<Finding> all() {
    bias_overall();
    for (unsigned w = 0; w < kWeights; ++w) linear(w);
    coordinate();
    error();
    squared_error();
    variance();
    for (Finding& finding : out_) {
      for (double* number : {&finding.measured, &finding.low, &finding.high, &finding.z}) {
        if (!std::isfinite(*number)) *number = kAbsent;
      }
    }
    return std::move(out_);
  }

 private:
  template <typename Of>
  Mean mean_of(Of of) const {
    Mean out;
    double squares = 0;
    for (const MessageSums& message : messages_) out.value += of(message) / r_;
    for (const MessageSums& message : messages_) {
      const double d = of(message) - out.value;
      squares += d * d;
    }
    if (messages_.size() < 2) return out;
    out.deviation = std::sqrt(squares / (r_ - 1));
    out.half = student_limit(r_ - 1) * out.deviation / std::sqrt(r_);
    return out;
  }

  Finding& add(std::string_view name, std::string_view promise, double measured, double half) {
    Finding finding = absent(name, promise, std::string(kApproximate));
    finding.verdict = Verdict::approximate;
    finding.measured = measured;
    finding.low = measured - half;
    finding.high = measured + half;
    return out_.emplace_back(std::move(finding));
  }

  // <S, e> of message r over r, S the sum of those before it, estimates ||E e||^2, with a variance that falls as 1 / r
  // where there is no bias, and uncorrelated then: their mean, weighted so, is U.
  void bias_overall() {
    if (messages_.size() < 3) {
      out_.push_back(absent(kBiasOverall, kUnbiasedOverall, "few messages cannot show it"));
      return;
    }
    double e2 = 0, opposed = 0, spread = 0;
    for (const MessageSums& message : messages_) {
      e2 += message.e2 / r_;
      opposed += message.opposed;
    }
    const double pairs = r_ * (r_ - 1) / 2, u = opposed / pairs;
    for (size_t before = 1; before < messages_.size(); ++before) {
      const auto weight = static_cast<double>(before);
      const double d = messages_[before].opposed / weight - u;
      spread += weight * d * d;
    }
    const double half = student_limit(r_ - 2) * std::sqrt(spread / (r_ - 2) / pairs);
    add(kBiasOverall, "bias overall (of the mean squared error)", u / e2, half / e2);
  }

  void linear(unsigned w) {
    const Mean t = mean_of([w](const MessageSums& message) { return message.t[w]; });
    const double unit = w == 0 ? sums_.norm2 / r_ : t.deviation;
    if (!(unit > 0) || w == 1) {  // the second is by the law's variance
      out_.push_back(absent(linear_name(w), linear_promise(w), std::string(kNoLaw)));
      return;
    }
    Finding& finding =
        add(linear_name(w), w == 0 ? "bias along x (part of x)" : linear_promise(w), t.value / unit, t.half / unit);
    finding.z = t.value / t.deviation * std::sqrt(r_);
  }

  // The law of the errors is not known, but that each is as likely e as -e: a test, at any number of messages.
  void coordinate() {
    if (!promise_ || !promise_->symmetric) {
      out_.push_back(absent("coordinate", "each element unbiased (steps)", std::string(kNoLaw)));
      return;
    }
    Finding finding = absent("coordinate", "each error as often above 0 as below (share of messages)", "");
    const double needed = std::ceil(2 * std::log(2 * static_cast<double>(size_) / level_));
    finding.verdict = r_ >= needed ? Verdict::kept : Verdict::undecided;
    if (r_ < needed) finding.trials_needed = static_cast<uint64_t>(needed);
    finding.smallest = std::min(1.0, std::sqrt(needed / r_) + 1.3 / std::sqrt(r_));
    if (sums_.balance) {
      const Balance& worst = *sums_.balance;
      finding.measured = worst.share;
      finding.bound = worst.bound * worst.share / worst.excess;
      finding.note = "element " + std::to_string(worst.index);
      if (worst.excess > worst.bound) finding.verdict = Verdict::broken;
    }
    out_.push_back(std::move(finding));
  }

  // Of independent messages, whatever their law: the product of 1 - b + b ||e||^2 / (omega ||x||^2) is on average at
  // most 1, for b from 0 to 1, so that it reaches 1 / level in at most that part of all runs (Markov). The mean over
  // three b is one of these too.
  void squared_error() {
    if (!promise_ || !promise_->omega || !(sums_.norm2 > 0)) return;
    constexpr std::array kBets = {0.02, 0.2, 0.8};
    constexpr double kSlack = 1 + 0x1p-18;  // what float32 rounds
    std::array<double, kBets.size()> log_e = {};
    Finding finding = absent("squared error", "expected ||e||^2 <= omega ||x||^2 (part of it)", "");
    double ratio = 0;
    for (const MessageSums& message : messages_) {
      const double allowed = *promise_->omega * message.norm2 * kSlack;
      // Nothing is allowed: then any error speaks against it, as far as float32 does not make it.
      const double m = allowed > 0 ? message.e2 / allowed : message.e2 > message.norm2 * 0x1p-40 ? 1e300 : 0;
      ratio += m / r_;
      for (size_t j = 0; j < log_e.size(); ++j) log_e[j] += std::log(1 - kBets[j] + kBets[j] * m);
    }
    const double largest = *std::max_element(log_e.begin(), log_e.end());
    double mean = 0;
    for (const double one : log_e) mean += std::exp(one - largest) / static_cast<double>(log_e.size());
    finding.measured = ratio;
    finding.verdict = largest + std::log(mean) >= -std::log(level_) ? Verdict::broken : Verdict::kept;
    out_.push_back(std::move(finding));
  }

  void error() {
    const Mean e2 = mean_of([](const MessageSums& message) { return message.e2; });
    const double norm2 = sums_.norm2 / r_;
    if (norm2 > 0) add("error", "error / ||x||^2", e2.value / norm2, e2.half / norm2);
  }

  void variance() {
    constexpr std::string_view kName = "variance", kPromise = "variance as declared";
    if (!promise_ || !promise_->variance || !(*promise_->variance > 0)) {
      out_.push_back(absent(kName, kPromise, std::string(kNoLaw)));
      return;
    }
    const Mean e2 = mean_of([](const MessageSums& message) { return message.e2; });
    add(kName, kPromise, e2.value / *promise_->variance, e2.half / *promise_->variance);
  }

  const std::vector<MessageSums>& messages_;
  const ErrorSums& sums_;
  const std::optional<Promise>& promise_;
  const double level_;
  const uint64_t size_;
  const double r_;
  std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> findings_without_law(const Evidence& evidence) { return Numbers(evidence).all(); }

}  // namespace gradcodec
