// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/tails.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gradcodec {

double bennett_h(double t) {
  if (t < 1e-3) return 0.5 + t / 6 + t * t / 24;  // the next term is below 1e-11
  return (std::expm1(t) - t) / (t * t);
}

double bennett_g(double u) {
  if (u < 1e-4) return u * u / 2 - u * u * u / 6;  // the next term is below 1e-8 of the first
  return (1 + u) * std::log1p(u) - u;
}

double bennett_threshold(double v, double c, double l) {
  if (!(c > 0)) return std::sqrt(2 * v * l);
  // Between the normal bound and Bernstein's.
  double low = std::sqrt(2 * v * l), high = low + c * l / 3;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (v / (c * c) * bennett_g(c * middle / v) < l ? low : high) = middle;
  }
  return high;
}

double log_binomial_tail(uint64_t k, uint64_t n, double p, std::span<const double> log_factorials) {
  if (k == 0) return 0;
  if (k > n || p <= 0) return -std::numeric_limits<double>::infinity();
  if (p >= 1) return 0;
  const auto log_factorial = [&](uint64_t i) { return log_factorials[static_cast<size_t>(i)]; };
  const double log_first = log_factorial(n) - log_factorial(k) - log_factorial(n - k) +
                           static_cast<double>(k) * std::log(p) + static_cast<double>(n - k) * std::log1p(-p);
  // Terms relative to the first, until they are too small to count: they fall faster and faster.
  const double odds = p / (1 - p);
  double sum = 1, term = 1;
  for (uint64_t i = k; i < n; ++i) {
    const double ratio = odds * static_cast<double>(n - i) / static_cast<double>(i + 1);
    term *= ratio;
    sum += term;
    if (ratio < 1 && term < 1e-17 * sum * (1 - ratio)) break;
  }
  return std::min(0.0, log_first + std::log(sum));
}

BinomialLimits::BinomialLimits(uint64_t n, double level) : lower_(static_cast<size_t>(n) + 1, 0.0) {
  std::vector<double> log_factorials(static_cast<size_t>(n) + 1, 0.0);
  for (size_t i = 1; i <= n; ++i) log_factorials[i] = log_factorials[i - 1] + std::log(static_cast<double>(i));
  const double log_level = std::log(level);
  for (uint64_t k = 1; k <= n; ++k) {
    // Bisection of ln p. The tail at p = k / n is above any level; limits rise with k.
    double low = k == 1 ? log_level - std::log(static_cast<double>(n)) - 1 : std::log(lower(k - 1));
    double high = std::log(static_cast<double>(k) / static_cast<double>(n));
    while (high - low > 0x1p-20) {
      const double middle = (low + high) / 2;
      (log_binomial_tail(k, n, std::exp(middle), log_factorials) < log_level ? low : high) = middle;
    }
    lower_[static_cast<size_t>(k)] = std::exp(low);
  }
  // A p above every limit cannot be seen to rise, nor, by symmetry, its complement to fall.
  smallest_shift_ = 1 - lower(n);
  for (uint64_t k = 1; k <= n; ++k) smallest_shift_ = std::max(smallest_shift_, shift_found(k, log_factorials));
}

// From a p that needs k successes to be left behind, to the one that has them nine times in ten.
double BinomialLimits::shift_found(uint64_t k, std::span<const double> log_factorials) const {
  const uint64_t n = lower_.size() - 1;
  const double log_often = std::log(0.9);
  double low = lower(k), high = 1;
  while (high - low > 0x1p-12) {
    const double middle = (low + high) / 2;
    (log_binomial_tail(k, n, middle, log_factorials) < log_often ? low : high) = middle;
  }
  return high - lower(k - 1);
}

double student_limit(double freedom) {
  constexpr double kNormal = 1.959963985;
  if (freedom > 1000) {  // the next term of this series (Fisher and Cornish, 1960) is below 1e-6
    const double z = kNormal, z3 = z * z * z;
    return z + (z3 + z) / (4 * freedom);
  }
  // With t = sqrt(freedom) tan a, P(|T| < t) is the integral of cos^(freedom - 1) to a, over that to a right angle.
  constexpr int kSteps = 4000;
  const double width = std::acos(-1.0) / 2 / kSteps;
  const auto density = [&](double a) { return std::pow(std::cos(a), freedom - 1); };
  std::vector<double> below(kSteps + 1, 0.0);
  for (size_t i = 1; i < below.size(); ++i) {
    below[i] = below[i - 1] + width * density((static_cast<double>(i) - 0.5) * width);
  }
  const auto found = std::lower_bound(below.begin(), below.end(), 0.95 * below.back());
  const double part = (0.95 * below.back() - *(found - 1)) / (*found - *(found - 1));
  const double angle = (static_cast<double>(found - 1 - below.begin()) + part) * width;
  return std::sqrt(freedom) * std::tan(angle);
}

double log_mean_exp(std::span<const double> x) {
  const double largest = *std::max_element(x.begin(), x.end());
  if (!std::isfinite(largest)) return largest;
  double sum = 0;
  for (const double value : x) sum += std::exp(value - largest);
  return largest + std::log(sum / static_cast<double>(x.size()));
}

}  // namespace gradcodec
