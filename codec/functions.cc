// SPDX-License-Identifier: Apache-2.0
#include "codec/functions.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gradcodec::functions {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ln 2 = kLn2High + kLn2Low; the first has 32 bits, so that its products with exponents are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLog2OfE = 0x1.71547652b82fep+0;
constexpr double kInverseRootTwoPi = 0x1.9884533d43651p-2;

// 2^k, for k from -1022 to 1023.
double two_to(int k) { return std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52); }

// e^r for |r| <= ln(2) / 2 + a little, by its series: the first term left out is below 2^-58.
double exp_near_zero(double r) {
  double sum = 1;
  for (int n = 14; n > 0; --n) sum = 1 + r * sum / n;
  return sum;
}

// exp(-x^2 / 2). The square is taken apart: rounded as a whole, it would be wrong by up to 2^-44 far out.
double bell(double x) {
  const double a = std::fabs(x);
  if (!(a < 39)) return a != a ? a : 0;
  const auto high = static_cast<double>(static_cast<float>(a));  // 24 bits: its square is exact
  return natural_exp(-0.5 * high * high) * natural_exp(-0.5 * (a - high) * (a + high));
}

// normal_cdf(x) - 1/2 for |x| <= 2: the density times x + x^3/3 + x^5/(3 5) + ... (Abramowitz and Stegun, 26.2.11),
// whose terms have one sign.
double cdf_from_middle(double x) {
  double term = x, sum = x;
  for (int n = 3; n < 75; n += 2) {
    term = term * x * x / n;
    sum += term;
  }
  return normal_density(x) * sum;
}

// normal_cdf(-x) for x >= 2: the density over the continued fraction x + 1/(x + 2/(x + 3/(x + ...))) (Abramowitz and
// Stegun, 26.2.14), from its 100th level up.
double upper_tail(double x) {
  double fraction = x;
  for (int n = 100; n > 0; --n) fraction = x + n / fraction;
  return normal_density(x) / fraction;
}

// To 4.5e-4, for 0 < p <= 1/2 (Abramowitz and Stegun, 26.2.23).
double quantile_roughly(double p) {
  const double t = std::sqrt(-2 * natural_log(p));
  const double above = 2.515517 + t * (0.802853 + t * 0.010328);
  const double below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308));
  return above / below - t;
}

// normal_quantile for 0 < p <= 1/2, by Halley's steps from there: each has an error of about the last one's cube. Near
// the middle p - 1/2, which is exact, is compared, not p.
double quantile_below_middle(double p) {
  double x = quantile_roughly(p);
  for (int step = 0; step < 3; ++step) {
    const double excess = x > -1 ? cdf_from_middle(x) - (p - 0.5) : normal_cdf(x) - p;
    const double newton = excess / normal_density(x);
    x -= newton / (1 + 0.5 * x * newton);
  }
  return x;
}

}  // namespace

double natural_exp(double x) {
  if (x != x) return x;
  if (x > 709.79) return kInfinity;
  if (x < -745.2) return 0;
  const double k = std::floor(x * kLog2OfE + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  const int power_of_two = static_cast<int>(k);
  // In two steps: 2^k alone may be beyond the range. One of the products is exact.
  const int half = power_of_two / 2;
  return exp_near_zero(r) * two_to(half) * two_to(power_of_two - half);
}

// x = 2^k m with m from sqrt(1/2) to sqrt(2); ln m = 2 artanh((m - 1) / (m + 1)).
double natural_log(double x) {
  if (x != x || x == kInfinity) return x;
  if (x < 0) return kNan;
  if (x == 0) return -kInfinity;
  int k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  k += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++k;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double tail = 0;  // of artanh(s) = s + s^3/3 + s^5/5 + ..., what comes after s, over s
  for (int n = 25; n > 1; n -= 2) tail = square * (1.0 / n + tail);
  return k * kLn2High + (2 * s + (2 * s * tail + k * kLn2Low));
}

double power(double x, double y) { return y == 0 ? 1 : natural_exp(y * natural_log(x)); }

double normal_density(double x) { return kInverseRootTwoPi * bell(x); }

double normal_cdf(double x) {
  if (std::fabs(x) <= 2) return 0.5 + cdf_from_middle(x);
  if (x != x) return x;
  if (std::fabs(x) == kInfinity) return x > 0 ? 1 : 0;
  return x < 0 ? upper_tail(-x) : 1 - upper_tail(x);
}

double normal_quantile(double p) {
  if (!(p >= 0 && p <= 1)) return kNan;
  if (p == 0.5) return 0;
  const double lower = p < 0.5 ? p : 1 - p;
  const double x = lower == 0 ? -kInfinity : quantile_below_middle(lower);
  return p < 0.5 ? x : -x;
}

}  // namespace gradcodec::functions
