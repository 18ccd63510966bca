// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace gradcodec {
namespace {

constexpr float kLeast = 0x1p-126F;
constexpr float kGreatest = 0x1p126F;

float next_up(float positive) { return std::bit_cast<float>(std::bit_cast<uint32_t>(positive) + 1); }

// The smallest float32 that is at least `value`, which is positive and below 2^127.
float rounded_up(double value) {
  const auto nearest = static_cast<float>(value);
  return static_cast<double>(nearest) < value ? next_up(nearest) : nearest;
}

// Of a table's nonzero levels.
float smallest_magnitude(std::span<const float> levels) {
  float smallest = std::numeric_limits<float>::infinity();
  for (const float level : levels) {
    if (level != 0) smallest = std::min(smallest, std::fabs(level));
  }
  return smallest;
}

}  // namespace

bool are_magnitudes(std::span<const float> magnitudes) {
  double least = static_cast<double>(kLeast);
  for (const float magnitude : magnitudes) {
    if (!(static_cast<double>(magnitude) >= least && magnitude <= kGreatest)) return false;
    least = static_cast<double>(magnitude) * kLevelRatio;  // exact: 24 bits times 17
  }
  return true;
}

void put_magnitudes(Bytes& out, std::span<const float> magnitudes) {
  for (const float magnitude : magnitudes) put(out, magnitude);
}

std::vector<float> take_magnitudes(ByteReader& stored, size_t count) {
  if (count > stored.left() / sizeof(float)) stored.fail("ends before its " + std::to_string(count) + " levels");
  std::vector<float> magnitudes(count);
  for (float& magnitude : magnitudes) magnitude = stored.get<float>();
  if (!are_magnitudes(magnitudes)) stored.fail("holds levels that do not increase from 2^-126 to 2^126");
  return magnitudes;
}

std::vector<float> mirrored_levels(std::span<const float> magnitudes, bool with_zero) {
  std::vector<float> levels;
  levels.reserve(2 * magnitudes.size() + 1);
  std::for_each(magnitudes.rbegin(), magnitudes.rend(), [&](float magnitude) { levels.push_back(-magnitude); });
  if (with_zero) levels.push_back(0);
  levels.insert(levels.end(), magnitudes.begin(), magnitudes.end());
  return levels;
}

bool is_antisymmetric(std::span<const float> levels) {
  for (size_t j = 0; j < levels.size(); ++j) {
    if (levels[j] != -levels[levels.size() - 1 - j]) return false;
  }
  return true;
}

uint16_t rest_symbol(std::span<const float> levels) {
  const auto zero = std::lower_bound(levels.begin(), levels.end(), 0.0F);
  return zero != levels.end() && *zero == 0 ? static_cast<uint16_t>(zero - levels.begin()) : uint16_t{0};
}

size_t interval_of(std::span<const float> levels, double x) {
  // The ends need no search: the last interval is closed.
  const auto above = std::upper_bound(levels.begin() + 1, levels.end() - 1, x,
                                      [](double value, float level) { return value < static_cast<double>(level); });
  return static_cast<size_t>(above - levels.begin()) - 1;
}

ScaleRange scale_range(std::span<const float> levels) {
  const auto last = static_cast<double>(levels.back());
  if (!(last >= 1 && last <= 0x1p60)) throw Error(Exit::bug, "a table to scale whose last level is not 1 to 2^60");
  const double least = static_cast<double>(kLeast) / static_cast<double>(smallest_magnitude(levels));
  return {std::max(kLeast, rounded_up(least)), static_cast<float>(std::min(0x1p126, 0x1p126 / last * 2))};
}

float covering_scale(double wanted, float max, std::span<const float> levels) {
  if (max == 0) return 0;
  const ScaleRange range = scale_range(levels);
  const double reach = static_cast<double>(max) / static_cast<double>(levels.back());
  const double least = std::max(reach, static_cast<double>(range.least));
  float scale = rounded_up(std::clamp(wanted, least, std::max(least, static_cast<double>(range.greatest))));
  while (static_cast<double>(scale) * static_cast<double>(levels.back()) < static_cast<double>(max)) {
    scale = next_up(scale);
  }
  return scale;
}

void scale_levels(std::span<const float> levels, float scale, std::span<float> out) {
  for (size_t j = 0; j < levels.size(); ++j) out[j] = scale * levels[j];
}

}  // namespace gradcodec
