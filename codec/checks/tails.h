// Tails of sums of bounded random variables, valid for every number of them: no limit theorem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradcodec {

// How many deviations above a test's threshold an effect must be to be found nine times in ten: the normal 90 % point.
inline constexpr double kPower = 1.3;

// (e^t - 1 - t) / t^2 for t >= 0; 1/2 at 0. A centred variable X <= b of variance v has log E e^(lambda X) <= lambda^2
// v h(lambda b) (Bennett, JASA 57, 1962).
double bennett_h(double t);

// (1 + u) ln(1 + u) - u for u >= 0: P(sum >= t) <= exp(-(v / c^2) g(c t / v)) for a sum of total variance v whose terms
// are at most c above their means.
double bennett_g(double u);

// The t at which that bound is e^-l.
double bennett_threshold(double v, double c, double l);

// ln P(X >= k) for X ~ Bin(n, p), exact to rounding. `log_factorials` holds ln 0! to ln n!.
double log_binomial_tail(uint64_t k, uint64_t n, double p, std::span<const double> log_factorials);

// Exact (Clopper and Pearson, Biometrika 26, 1934) limits of p given k successes of n.
class BinomialLimits {
 public:
  // `level`: probability a side, in (0, 1/2). Takes time of order n^1.5.
  BinomialLimits(uint64_t n, double level);

  // The smallest p under which k successes or more have probability `level`, or a relative 2^-20 below it; 0 for k = 0.
  // The largest p, by symmetry, is 1 - lower(n - k).
  double lower(uint64_t k) const { return lower_[static_cast<size_t>(k)]; }

  // The largest shift of a p, whatever it is, that would be missed more than once in ten: k out of the limits of p.
  double smallest_shift() const { return smallest_shift_; }

 private:
  double shift_found(uint64_t k, std::span<const double> log_factorials) const;

  std::vector<double> lower_;
  double smallest_shift_ = 1;
};

// The t that Student's variable of `freedom` >= 1 degrees of freedom passes, either way, with probability 5 %; to 1e-4
// of it.
double student_limit(double freedom);

// ln of the mean of e^x.
double log_mean_exp(std::span<const double> x);

// What multiplies an e-process, in logarithm, when sums D (of a predictable weight times a centred variable) and P (of
// weight^2 times variance) are added to it: lambda |D| - lambda^2 P h(lambda a), with `slack` for a shift of the mean.
//   uniform: the variables are uniform, strictly sub-Gaussian: h = 1/2;  else each term is at most a above its mean.
// Its expectation, exponentiated, is at most 1 for every lambda >= 0.
inline double e_increment(double lambda, double d, double slack, double p, double a, bool uniform) {
  if (p == 0) return lambda * (d - slack);  // h may be infinite
  return lambda * (d - slack) - lambda * lambda * p * (uniform ? 0.5 : bennett_h(lambda * a));
}

}  // namespace gradcodec
