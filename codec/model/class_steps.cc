// SPDX-License-Identifier: Apache-2.0
#include "codec/model/class_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace gradcodec {
namespace {

constexpr float kMinStep = 0x1p-126F, kMaxStep = 0x1p126F;

// 2^(-i/16).
constexpr std::array<uint32_t, 16> kRootBits = {0x3F800000, 0x3F75257D, 0x3F6AC0C7, 0x3F60CCDF, 0x3F5744FD, 0x3F4E248C,
                                                0x3F45672A, 0x3F3D08A4, 0x3F3504F3, 0x3F2D583F, 0x3F25FED7, 0x3F1EF532,
                                                0x3F1837F0, 0x3F11C3D3, 0x3F0B95C2, 0x3F05AAC3};

float step_below(float d0, int32_t drop) {
  const float scaled = d0 * std::bit_cast<float>(kRootBits[static_cast<size_t>(drop % 16)]);
  const int32_t octaves = std::min(drop / 16, 300);
  const double step = std::ldexp(static_cast<double>(scaled), -octaves);  // exact, and in float32 from 2^-126 on
  return step < static_cast<double>(kMinStep) ? kMinStep : static_cast<float>(step);
}

int32_t drop_of(int32_t base, size_t sum) { return step_drop(base - 8 * static_cast<int32_t>(sum)); }

// D0 where the base is this one: the square root of 12 nmse squares / sum of n 4^(-drop / 16).
float d0_of(int32_t base, const std::vector<uint64_t>& counts, double energy) {
  double weight = 0;
  for (size_t sum = 0; sum < counts.size(); ++sum) {
    const auto relative = static_cast<double>(step_below(1, drop_of(base, sum)));
    weight += static_cast<double>(counts[sum]) * (relative * relative);
  }
  const double d0 = std::sqrt(energy / weight);
  return static_cast<float>(std::clamp(d0, static_cast<double>(kMinStep), static_cast<double>(kMaxStep)));
}

}  // namespace

ClassSteps class_steps(float d0, int32_t base) {
  ClassSteps steps;
  for (size_t sum = 0; sum < steps.size(); ++sum) steps[sum] = step_below(d0, drop_of(base, sum));
  return steps;
}

// A larger base makes larger relative steps and so a smaller D0, by less: the base that D0 asks for rises, and is found
// from below.
float fit_class_steps(LineScales& scales, double squares, double nmse) {
  const std::vector<uint64_t> counts = scales.counts_of_sums();
  const double energy = 12.0 * nmse * squares;
  constexpr int32_t kMostRounds = 64;
  float d0 = d0_of(1 << 13, counts, energy);  // all steps alike
  for (int32_t round = 0; round < kMostRounds; ++round) {
    const int32_t before = scales.base();
    scales.set_step(static_cast<double>(d0));
    if (round > 0 && scales.base() == before) break;
    d0 = d0_of(scales.base(), counts, energy);
  }
  return d0;
}

}  // namespace gradcodec
