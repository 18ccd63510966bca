// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/normal_mixture.h"

#include <cmath>

#include "codec/error.h"
#include "codec/functions.h"

namespace gradcodec {

using functions::normal_cdf;
using functions::normal_density;

NormalMixture::NormalMixture(std::span<const NormalPart> parts) {
  double total = 0;
  for (const NormalPart& part : parts) total += part.weight;
  if (!(total > 0)) throw Error(Exit::bug, "a mixture without a part");
  for (const NormalPart& part : parts) {
    if (part.weight == 0) continue;
    const double mean = part.mean, deviation = part.deviation;
    const double below = normal_cdf(-mean / deviation);
    const double mass = 1 - below - normal_cdf((mean - 1) / deviation);
    const double weight = part.weight / total;
    const double density_by = weight / (deviation * mass);
    parts_.push_back({mean, deviation, deviation * deviation, weight / mass, below,
                      density_by * normal_density(mean / deviation), density_by});
  }
}

// With the density f of a part, F its integral from 0 and s^2 its variance, r f(r) = mean f(r) - s^2 f'(r).
Cumulative NormalMixture::at(double x) const {
  Cumulative sum = {0, 0, 0, 0};
  for (const Part& part : parts_) {
    const double z = (x - part.mean) / part.deviation;
    const double mass = part.factor * (normal_cdf(z) - part.below);
    const double density = part.density_by * normal_density(z);
    sum.moment0 += mass;
    sum.moment1 += part.mean * mass - part.variance * (density - part.at_zero);
    sum.moment2 += (part.mean * part.mean + part.variance) * mass -
                   part.variance * ((x + part.mean) * density - part.mean * part.at_zero);
    sum.density += density;
  }
  return sum;
}

double NormalMixture::quantile(double probability, double low, double high, double start) const {
  const double grain = high * 0x1p-32;
  double x = start;
  for (int step = 0; step < 100; ++step) {
    const Cumulative here = at(x);
    const double excess = here.moment0 - probability;
    (excess > 0 ? high : low) = x;
    double next = here.density > 0 ? x - excess / here.density : low;
    if (!(next > low && next < high)) next = low + (high - low) / 2;
    if (std::fabs(next - x) <= grain) return next;
    x = next;
  }
  return x;
}

}  // namespace gradcodec
