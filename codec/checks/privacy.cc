// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/privacy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "codec/checks/sum.h"

namespace gradcodec {
namespace {

// The distribution of Bin(n, 1/2) from its lower end up. Weights run out from the mode, where none is lost to rounding,
// and end where they would leave float64: 1e-290 of the largest, far below any delta.
class BinomialSums {
 public:
  // Probabilities of up to `last` successes.
  BinomialSums(uint64_t n, uint64_t last) {
    constexpr double kLeast = 1e-290;
    const uint64_t mode = n / 2;
    std::vector<double> below;  // of mode, mode - 1, ..
    double weight = 1;
    for (uint64_t y = mode;; --y) {
      below.push_back(weight);
      if (y == 0 || weight < kLeast) break;
      weight *= static_cast<double>(y) / static_cast<double>(n - y + 1);
    }
    first_ = mode + 1 - below.size();
    probability_.assign(below.rbegin(), below.rend());
    weight = 1;
    std::vector<double> above;  // of mode + 1, ..
    for (uint64_t y = mode + 1; y <= n && weight >= kLeast; ++y) {
      weight *= static_cast<double>(n - y + 1) / static_cast<double>(y);
      above.push_back(weight);
    }
    Sum total;  // the small ones first
    for (auto it = above.rbegin(); it != above.rend(); ++it) total.add(*it);
    for (const double w : below) total.add(w);
    for (uint64_t y = mode + 1; y <= last && y - mode <= above.size(); ++y) probability_.push_back(above[y - mode - 1]);
    Sum sum;
    for (double& p : probability_) {
      p /= total.value();
      sum.add(p);
      up_to_.push_back(sum.value());
    }
  }

  double at(uint64_t y) const {
    if (y < first_ || y - first_ >= probability_.size()) return 0;
    return probability_[static_cast<size_t>(y - first_)];
  }

  double up_to(uint64_t y) const {
    if (y < first_) return 0;
    return up_to_[std::min(static_cast<size_t>(y - first_), up_to_.size() - 1)];
  }

 private:
  uint64_t first_ = 0;
  std::vector<double> probability_, up_to_;
};

}  // namespace

Sensitivity replaced_by_any(uint64_t d, uint64_t intervals) {
  const auto n = static_cast<double>(d), s = static_cast<double>(intervals);
  return {n * s, std::sqrt(n) * s, s};
}

Sensitivity replaced_within(uint64_t d, uint64_t intervals, double step, double distance) {
  const Sensitivity any = replaced_by_any(d, intervals);
  const auto root = std::sqrt(static_cast<double>(d));
  const double steps = distance / step;
  return {std::min(any.l1, root * steps + 2 * static_cast<double>(d)), std::min(any.l2, steps + 2 * root),
          std::min(any.max, std::ceil(steps) + 1)};
}

std::optional<double> theorem_epsilon(const BinomialNoise& noise, uint64_t d, const Sensitivity& moved, double delta) {
  const double p = noise.p, q = 1 - p, dims = static_cast<double>(d);
  const double variance = static_cast<double>(noise.trials) * p * q;
  if (!(variance >= std::max(23 * std::log(10 * dims / delta), 2 * moved.max / noise.scale))) return std::nullopt;
  const double b = 2.0 / 3 * (p * p + q * q) + (1 - 2 * p);
  const double c = std::sqrt(2.0) * (3 * p * p * p + 3 * q * q * q + 2 * p * p + 2 * q * q);
  const double e = 4.0 / 3 * (p * p + q * q);  // the paper's d_p
  const double log_small = std::log(1.25 / delta), log_ten = std::log(10 / delta);
  return moved.l2 * std::sqrt(2 * log_small) / (noise.scale * std::sqrt(variance)) +
         (moved.l2 * c * std::sqrt(log_ten) + moved.l1 * b) / (noise.scale * variance * (1 - delta / 10)) +
         moved.max * (2.0 / 3 * log_small + e * std::log(20 * dims / delta) * log_ten) / (noise.scale * variance);
}

// By bisection: more noise never makes the condition fail or epsilon grow.
std::optional<uint64_t> theorem_trials(BinomialNoise noise, uint64_t d, const Sensitivity& moved, double delta,
                                       double epsilon) {
  const auto enough = [&](uint64_t trials) {
    noise.trials = trials;
    const std::optional<double> found = theorem_epsilon(noise, d, moved, delta);
    return found && *found <= epsilon;
  };
  uint64_t high = uint64_t{1} << 62, low = 0;  // not enough, as there is no noise
  if (!enough(high)) return std::nullopt;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

// With P the distribution and a the shift, the ratio P(y) / P(y - a) falls in y. So delta(epsilon), the sum of what
// P(y) is above e^epsilon P(y - a), takes the y up to some last one, whose ratio is still above e^epsilon; between the
// ratios of two neighbouring y it is F(y) - e^epsilon F(y - a). The other sign of the shift is the same by symmetry.
double exact_epsilon(uint64_t trials, uint64_t shift, double delta) {
  if (shift > trials) return std::numeric_limits<double>::infinity();
  const uint64_t end = (trials + shift) / 2;  // beyond it the ratio is below 1
  const BinomialSums sums(trials, end);
  if (sums.up_to(shift - 1) > delta) return std::numeric_limits<double>::infinity();
  // delta where e^epsilon is the ratio at y: it grows with y. Ratios of numbers too small for float64 count as 0.
  const auto delta_at = [&](uint64_t y) {
    const double other = sums.at(y - shift);
    if (!(other > 0)) return 0.0;
    return sums.up_to(y) - sums.at(y) / other * sums.up_to(y - shift);
  };
  uint64_t low = shift - 1, high = end + 1;  // delta_at(low) <= delta, delta_at(high) would be above
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (delta_at(middle) > delta ? high : low) = middle;
  }
  if (low < shift) low = shift;  // delta is P(Z < shift) but for rounding
  const double other = sums.up_to(low - shift);
  if (!(other > 0)) return std::numeric_limits<double>::infinity();
  return std::max(0.0, std::log((sums.up_to(low) - delta) / other));
}

}  // namespace gradcodec
