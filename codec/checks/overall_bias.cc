// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/overall_bias.h"

#include <cmath>
#include <limits>

#include "codec/checks/tails.h"

namespace gradcodec {
namespace {

constexpr double kPower = 1.3;  // the normal 90 % point

// 2 h(lambda a) at the central lambda: a is the step times the largest |S|, of an element with the largest deviation
// (half a step), four deviations out, and the bias beside it.
double bennett_factor(const LawSums& laws, double log_level, double trials, double growth, double k) {
  if (laws.twos == 0) return 1;
  const double effective = laws.variance * laws.variance / laws.quartic;
  const double reach = 4 + std::sqrt(k) * std::pow(2 / effective, 0.25);
  const double square = laws.largest_step * laws.largest_step;
  return 2 * bennett_h(std::sqrt(log_level / growth) * square * reach / std::sqrt(trials * laws.quartic));
}

}  // namespace

OverallSharpness overall_sharpness(const LawSums& laws, double level, uint64_t trials) {
  const double log_level = std::log(kLambdas / level), effective = laws.variance * laws.variance / laws.quartic;
  OverallSharpness out;
  double k = std::sqrt(2 * log_level) + kPower;
  for (unsigned i = 0; i < 1000; ++i) {
    out.growth = 1 + k * std::sqrt(8 / 9.0 / effective);
    const double spread = std::sqrt(1 + k * std::sqrt(8 / effective));
    const double factor = bennett_factor(laws, log_level, static_cast<double>(trials), out.growth, k);
    const double next = std::sqrt(log_level * out.growth / 2) * (1 + factor) + kPower * spread;
    if (!(next < 1e6)) {
      out.smallest = std::numeric_limits<double>::infinity();
      return out;
    }
    const bool settled = std::fabs(next - k) <= 1e-9 * k;
    k = next;
    if (settled) break;
  }
  out.smallest = k;
  return out;
}

}  // namespace gradcodec
