// The law of a magnitude between 0 and 1, as far as levels are fitted to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gradcodec {

// Integrals from 0 to x: of 1, r and r^2 times the density at r; and the density at x.
struct Cumulative {
  double moment0, moment1, moment2, density;
};

class MagnitudeLaw {
 public:
  virtual ~MagnitudeLaw() = default;

  // x is from 0 to 1, where moment0 is about 1.
  virtual Cumulative at(double x) const = 0;

  // Where moment0 is `probability`, between `low` and `high`. `start`, between them too, may be where to begin.
  virtual double quantile(double probability, double low, double high, double start) const = 0;
};

// The expected (r - low)(high - r) of what lies between, from the integrals up to both.
inline double variance_between(double low, const Cumulative& to_low, double high, const Cumulative& to_high) {
  const double m0 = to_high.moment0 - to_low.moment0;
  const double m1 = to_high.moment1 - to_low.moment1;
  const double m2 = to_high.moment2 - to_low.moment2;
  return (low + high) * m1 - m2 - low * high * m0;
}

}  // namespace gradcodec
