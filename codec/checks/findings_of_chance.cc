// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codec/checks/evidence.h"

namespace gradcodec {
namespace {

constexpr double kVarianceMargin = 0.02;

// Not rejected: is what could have been missed less than what matters?
void decide(Finding& finding, bool broken, double needed) {
  if (broken) {
    finding.verdict = Verdict::broken;
  } else if (!std::isinf(finding.smallest) && (std::isnan(finding.margin) || finding.smallest <= finding.margin)) {
    finding.verdict = Verdict::kept;
  } else {
    finding.verdict = Verdict::undecided;
    const double trials = std::ceil(1.02 * needed);  // the terms do not all shrink alike
    finding.trials_needed = trials <= static_cast<double>(kManyTrials) ? static_cast<uint64_t>(trials) : 0;
  }
}

// The value above which Bernstein's inequality, at e^-L a side, speaks against a sum of this variance and largest term.
double bernstein(double variance, double largest, double l) { return std::sqrt(2 * variance * l) + largest * l / 3; }

class Tests {
 public:
  explicit Tests(const Evidence& evidence)
      : laws_(evidence.laws),
        sums_(evidence.sums),
        promise_(evidence.promise),
        options_(evidence.options),
        lags_(evidence.lags),
        trials_(evidence.trials),
        limits_(evidence.limits),
        r_(static_cast<double>(evidence.trials)),
        l2_(std::log(2 / evidence.options.level)),
        chance_(evidence.laws.chance() > 0 && evidence.laws.variance > 0) {}

  std::vector<Finding> all() {
    bias_overall();
    for (unsigned w = 0; w < kWeights; ++w) linear(w);
    coordinate();
    variance();
    lags();
    between_tensors();
    uniformity();
    variance_by_size();
    for (Finding& finding : out_) {  // nothing that large can be found, or told
      for (double* number : {&finding.measured, &finding.bound, &finding.low, &finding.high, &finding.smallest}) {
        if (std::isinf(*number)) *number = kAbsent;
      }
    }
    return std::move(out_);
  }

 private:
  bool uniform() const { return laws_.uniform(); }

  // Whether the tests of chance say anything; else why not.
  bool applies(std::string_view name, std::string_view promise, bool needs_many) {
    if (!chance_) {
      out_.push_back(absent(name, promise, "nothing here is left to chance"));
    } else if (needs_many && trials_ < 2) {
      out_.push_back(absent(name, promise, "one sample cannot show it"));
    } else {
      return true;
    }
    return false;
  }

  void bias_overall() {
    if (!applies(kBiasOverall, kUnbiasedOverall, true)) return;
    Finding finding;
    finding.name = kBiasOverall;
    finding.promise = kUnbiasedOverall;
    const double v = laws_.variance, sd0 = std::sqrt(2 * laws_.quartic / (r_ * (r_ - 1)));
    const double u = (sums_.s2 - sums_.e2) / (r_ * (r_ - 1));
    const double spread = 1.96 * std::sqrt(sd0 * sd0 + 4 * laws_.largest_variance * std::max(u, 0.0) / r_);
    const OverallSetting setting{.trials = r_,
                                 .level = options_.level,
                                 .quartic = laws_.penalty,
                                 .largest_variance = laws_.largest_tail,
                                 .slack = sums_.overall_slack,
                                 .largest = sums_.overall_largest,
                                 .uniform = uniform()};
    finding.measured = u / v;
    finding.low = (u - spread) / v;
    finding.high = (u + spread) / v;
    finding.bound = overall_threshold(setting) / v;
    finding.smallest = overall_smallest(setting) / v;
    finding.margin = 1 / static_cast<double>(options_.messages);
    finding.z = u / sd0;
    const bool broken = !(log_mean_exp(sums_.log_w) < -std::log(options_.level));
    const double hidden = std::max(laws_.eta2, 2 * sums_.overall_slack / (r_ * (r_ - 1)));
    const bool below = finding.margin * v < hidden;
    decide(finding, broken, below ? 0 : overall_trials(setting, finding.margin * v, kManyTrials));
    if (!broken && below) finding.verdict = Verdict::below_resolution;
    out_.push_back(std::move(finding));
  }

  void linear(unsigned w) {
    const std::string name = linear_name(w), promise = linear_promise(w);
    const bool slope = w == 0;
    if (!applies(name, promise, false)) return;
    const LinearSums& sums = sums_.linear[w];
    const double v = sums.variance;  // of all trials
    if (!(v > 0)) {
      out_.push_back(absent(name, promise, "the weights are 0 where there is chance"));
      return;
    }
    Finding finding;
    finding.name = name;
    finding.promise = promise;
    const double unit = slope ? sums_.norm2 : std::sqrt(r_ * v);
    const double deviation = std::sqrt(v);
    const double critical = uniform() ? std::sqrt(2 * v * l2_) : bennett_threshold(v, sums.largest, l2_);
    finding.measured = sums.t / unit;
    finding.bound = (critical + sums.slack) / unit;
    finding.low = finding.measured - finding.bound;
    finding.high = finding.measured + finding.bound;
    finding.smallest = finding.bound + kPower * deviation / unit;
    finding.z = sums.t / deviation;
    if (slope) finding.margin = options_.margin;
    settle(finding, !(std::fabs(sums.t) - sums.slack < critical), sums.slack / unit);
  }

  void coordinate() {
    constexpr std::string_view kName = "coordinate", kPromise = "each element unbiased (steps)";
    if (!applies(kName, kPromise, true)) return;
    if (sums_.laws_vary) {
      out_.push_back(absent(kName, kPromise, "its law differs from trial to trial"));
      return;
    }
    Finding finding;
    finding.name = kName;
    finding.promise = kPromise;
    // A mean is at most as far off as an error may be (half a step of a uniform one, a step where ups are counted): few
    // trials can show nothing.
    const auto elements = static_cast<double>(laws_.chance());
    const double log_tail = std::log(2 * elements / options_.level), twos = laws_.twos > 0 ? 1 : 0;
    finding.smallest = std::max(sums_.coordinate_limit, twos * std::sqrt(log_tail / (6 * r_))) +
                       kPower * std::max(sums_.coordinate_spread, twos / std::sqrt(12.0)) / std::sqrt(r_);
    if (limits_ != nullptr) finding.smallest = std::max(finding.smallest, limits_->smallest_shift());
    finding.smallest += sums_.resolution;
    const bool broken = !(sums_.coordinate <= 0);
    if (!broken && !(finding.smallest < laws_.largest_shift)) {
      out_.push_back(absent(kName, kPromise, "more trials are needed to show anything of one element"));
      return;
    }
    decide(finding, broken, 0);
    if (finding.verdict == Verdict::broken) finding.note = "element " + std::to_string(sums_.coordinate_index);
    out_.push_back(std::move(finding));
  }

  // What could have been missed shrinks with the square root of the number of trials, but for what eta may add, which
  // is `hidden` of it in any number.
  void settle(Finding& finding, bool broken, double hidden) {
    const double needed = (finding.smallest - hidden) / (finding.margin - hidden);
    decide(finding, broken, needed > 0 ? r_ * needed * needed : std::numeric_limits<double>::infinity());
    if (finding.verdict == Verdict::undecided && hidden >= finding.margin) finding.verdict = Verdict::below_resolution;
    out_.push_back(std::move(finding));
  }

  void squares(std::string_view name, std::string_view promise, const SquareSums& sums, bool has_margin) {
    if (!applies(name, promise, false)) return;
    if (!(sums.expected > 0)) {
      out_.push_back(absent(name, promise, "the values are 0 where there is chance"));
      return;
    }
    Finding finding;
    finding.name = name;
    finding.promise = promise;
    const double critical = bernstein(sums.variance, sums.largest, l2_) + sums.slack;
    const double beyond = std::fabs(sums.q - sums.expected);
    const double spread = std::sqrt(sums.variance);
    finding.measured = sums.q / sums.expected;
    finding.bound = 1 + critical / sums.expected;
    finding.low = finding.measured - critical / sums.expected;
    finding.high = finding.measured + critical / sums.expected;
    finding.smallest = (critical + kPower * spread) / sums.expected;
    if (spread > 0) finding.z = (sums.q - sums.expected) / spread;
    if (has_margin) finding.margin = kVarianceMargin;
    settle(finding, !(beyond <= critical), sums.slack / sums.expected);
  }

  void variance() { squares("variance", "variance as declared", sums_.square, true); }

  void variance_by_size() { squares("var |x|", "variance as declared, by |x|", sums_.square_by_size, false); }

  void pairs(const std::string& name, const std::string& promise, const LagSums& sums) {
    if (!applies(name, promise, false)) return;
    if (promise_ && !promise_->independent) {
      out_.push_back(absent(name, promise, "the scheme does not promise independence"));
      return;
    }
    if (sums.pairs == 0 || !(sums.expected_p > 0)) {
      out_.push_back(absent(name, promise, "no pair that has chance"));
      return;
    }
    Finding finding;
    finding.name = name;
    finding.promise = promise;
    const double lambda = std::sqrt(2 * l2_ / sums.expected_p);
    const std::array<double, 2> log_w = {e_increment(lambda, sums.d, sums.slack, sums.p, sums.largest, uniform()),
                                         e_increment(lambda, -sums.d, sums.slack, sums.p, sums.largest, uniform())};
    const double unit = std::sqrt(sums.expected_p * static_cast<double>(sums.pairs));
    const double h = uniform() ? 0.5 : bennett_h(lambda * sums.largest);
    finding.measured = sums.d / unit;
    finding.bound = (l2_ / lambda + lambda * sums.expected_p * h + sums.slack) / unit;
    finding.smallest = finding.bound + kPower * std::sqrt(sums.expected_p) / unit;
    finding.z = sums.d / std::sqrt(sums.expected_p);
    decide(finding, !(log_mean_exp(log_w) < -std::log(options_.level)), 0);
    out_.push_back(std::move(finding));
  }

  // One whose draws repeat breaks several: the plainest stands first.
  void lags() {
    const auto first = static_cast<ptrdiff_t>(out_.size());
    for (size_t l = 0; l < lags_.size(); ++l) lag(l);
    std::stable_sort(out_.begin() + first, out_.end(), [](const Finding& a, const Finding& b) {
      const auto weight = [](const Finding& f) { return f.verdict == Verdict::broken ? std::fabs(f.z) : -1.0; };
      return weight(a) > weight(b);
    });
  }

  void lag(size_t l) {
    const std::string distance = std::to_string(lags_[l]);
    pairs("lag " + distance, "independent at distance " + distance + " (correlation)", sums_.pairs[l]);
  }

  void between_tensors() {
    pairs("between tensors", "independent of the tensor before (correlation)", sums_.pairs[kLags]);
  }

  // Test 6, by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart.
  void uniformity() {
    constexpr std::string_view kName = "uniformity", kPromise = "errors uniform (distance)";
    if (!applies(kName, kPromise, false)) return;
    if (!uniform()) {
      out_.push_back(absent(kName, kPromise, "the law is not uniform"));
      return;
    }
    uint64_t total = 0, below = 0;
    for (const uint64_t count : sums_.histogram) total += count;
    double distance = 0;
    for (size_t bin = 0; bin < sums_.histogram.size(); ++bin) {
      below += sums_.histogram[bin];
      const double edge =
          std::min(1.0, (static_cast<double>(bin + 1) - kBinOffset) / static_cast<double>(kUniformityBins));
      distance = std::max(distance, std::fabs(static_cast<double>(below) / static_cast<double>(total) - edge));
    }
    Finding finding;
    finding.name = kName;
    finding.promise = kPromise;
    finding.measured = distance;
    finding.bound = std::sqrt(l2_ / (2 * static_cast<double>(total))) + sums_.resolution;
    finding.smallest = finding.bound + kPower / (2 * std::sqrt(static_cast<double>(total)));
    decide(finding, !(distance <= finding.bound), 0);
    out_.push_back(std::move(finding));
  }

  const LawSums& laws_;
  const ErrorSums& sums_;
  const std::optional<Promise>& promise_;
  const CheckOptions& options_;
  const std::vector<uint64_t>& lags_;
  const uint64_t trials_;
  const BinomialLimits* limits_;
  const double r_, l2_;
  const bool chance_;
  std::vector<Finding> out_;
};

}  // namespace

std::string linear_name(unsigned weight) { return "linear " + std::string(kWeightNames[weight]); }

std::string linear_promise(unsigned weight) {
  return weight == 0 ? "unbiased along x (part of x)"
                     : "unbiased along " + std::string(kWeightNames[weight]) + " (deviations)";
}

std::vector<Finding> findings_of_chance(const Evidence& evidence) { return Tests(evidence).all(); }

}  // namespace gradcodec
