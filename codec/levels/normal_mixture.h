// A mixture of normal laws, each truncated to [0, 1]: the model of the magnitudes that ALQ and AMQ fit levels to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace gradcodec {

// The normal law of this mean and deviation before it is truncated to [0, 1].
struct NormalPart {
  double weight;     // at least 0
  double mean;       // from 0 to 1
  double deviation;  // above 0
};

// Integrals from 0 to x: of 1, r and r^2 times the density at r; and the density at x.
struct Cumulative {
  double moment0, moment1, moment2, density;
};

class NormalMixture {
 public:
  // Parts of weight 0 are left out; the others' weights are made to sum to 1. There must be one.
  explicit NormalMixture(std::span<const NormalPart> parts);

  // x is from 0 to 1. The parts are added in their order.
  Cumulative at(double x) const;

  // Where moment0 is `probability`, between `low` and `high`, by Newton's method from `start` inside, halving where it
  // leaves them; to 2^-45 of `high`.
  double quantile(double probability, double low, double high, double start) const;

 private:
  struct Part {
    double mean, deviation, variance;
    double factor;      // of the normal distribution function: weight / Z
    double below;       // the normal distribution function at 0
    double at_zero;     // the density at 0
    double density_by;  // of the normal density: weight / (deviation Z)
  };

  std::vector<Part> parts_;
};

// The expected (r - low)(high - r) of what lies between, from the integrals up to both.
double variance_between(double low, const Cumulative& to_low, double high, const Cumulative& to_high);

}  // namespace gradcodec
