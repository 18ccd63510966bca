// Tables of levels l_0 < ... < l_c-1 that values are rounded to, and the scales that a table may be multiplied by.
//
// Table and scales are float32, and so is each product, to nearest: what is decoded. The encoder rounds against exactly
// these products. So that they stay distinct and normal, magnitudes keep a distance from each other, and scales from
// the ends of float32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/bytes.h"

namespace gradcodec {

inline constexpr size_t kMostLevels = 65536;

// Every magnitude is at least this many times the one before: products with one scale are then distinct float32.
inline constexpr double kLevelRatio = 1 + 0x1p-16;

// Whether these may be the positive levels of a table: from 2^-126 to 2^126, and kLevelRatio apart. None may, too.
bool are_magnitudes(std::span<const float> magnitudes);

// 4 bytes each. take_magnitudes reads `count` of them; throws Error(bad_input) if are_magnitudes does not hold.
void put_magnitudes(Bytes& out, std::span<const float> magnitudes);
std::vector<float> take_magnitudes(ByteReader& stored, size_t count);

// The table of the magnitudes, their negatives, and 0 if `with_zero`.
std::vector<float> mirrored_levels(std::span<const float> magnitudes, bool with_zero);

// Whether l_j = -l_(c-1-j) for all j.
bool is_antisymmetric(std::span<const float> levels);

// The place of the level 0; 0 if there is none. What stands for a value where nothing is to be decoded.
uint16_t rest_symbol(std::span<const float> levels);

// The lower neighbour's place for a value among the levels, l_j <= x < l_j+1; the last but one for the last level.
// There are two levels or more, and x lies between the first and the last.
size_t interval_of(std::span<const float> levels, double x);

// The float32 scales, positive, that a table of two or more levels may have: N l is 0 or from 2^-126 to 2^127 in
// magnitude for all its levels. The table's last level must be from 1 to 2^60.
struct ScaleRange {
  float least, greatest;
  bool has(float scale) const { return scale >= least && scale <= greatest; }
};
ScaleRange scale_range(std::span<const float> levels);

// The smallest usable scale that is at least `wanted` (or the greatest usable, if that is less), and whose last level
// reaches `max`, a regular magnitude: N l_c-1 >= max, the product exact. 0 if max is 0.
float covering_scale(double wanted, float max, std::span<const float> levels);

// out[j] = float32(scale * levels[j]).
void scale_levels(std::span<const float> levels, float scale, std::span<float> out);

}  // namespace gradcodec
