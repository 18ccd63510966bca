// A mixture of normal laws, each truncated to [0, 1]: the model of the magnitudes that ALQ and AMQ fit levels to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "codec/levels/law.h"

namespace gradcodec {

// The normal law of this mean and deviation before it is truncated to [0, 1].
struct NormalPart {
  double weight;     // at least 0
  double mean;       // from 0 to 1
  double deviation;  // above 0
};

class NormalMixture final : public MagnitudeLaw {
 public:
  // Parts of weight 0 are left out; the others' weights are made to sum to 1. There must be one.
  explicit NormalMixture(std::span<const NormalPart> parts);

  // The parts are added in their order.
  Cumulative at(double x) const override;

  // By Newton's method, halving where it leaves what is between; to 2^-32 of `high`.
  double quantile(double probability, double low, double high, double start) const override;

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

}  // namespace gradcodec
