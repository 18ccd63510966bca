// The universal frequencies of the coder `model`: of q given how large a value is expected to be in steps and how far
// its dither is from the point where it decides alone. Nothing is sent of them but which law. spec/coders/model.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "codec/kernels/kernels.h"
#include "codec/model/laws.h"

namespace gradcodec {

// Scale over step, in quarter octaves from 2^-8 to 2^11; and where all values are 0.
inline constexpr uint32_t kScaleClasses = 77;
inline constexpr uint8_t kZeroScale = kScaleClasses;

inline constexpr uint32_t kModelTokens = 32;  // 0, +1, -1, ... +15, -15, and the escape
inline constexpr uint32_t kModelEscape = 31;
inline constexpr uint32_t kModelPrecision = 15;
inline constexpr uint32_t kModelRows = (kScaleClasses + 1) * kernels::kDitherClasses;  // class * 32 + dither's class

// The class of a scale that is `sixteenths` of octaves over the step.
constexpr uint8_t scale_class_of(int32_t sixteenths) {
  return static_cast<uint8_t>(std::clamp(((sixteenths + 2) >> 2) + 32, 0, static_cast<int32_t>(kScaleClasses) - 1));
}

// Low bits of q that stand beside its token, above a scale of 3 steps: at most 10.
constexpr uint32_t model_raw_count(uint32_t scale_class) {
  return scale_class <= 38 || scale_class >= kScaleClasses ? 0 : (scale_class - 38 + 3) / 4;
}

// The token of q, whose lowest raw_count bits stand beside it. What has no token of its own has the escape.
constexpr uint32_t model_token(int32_t q, uint32_t raw_count) {
  const int32_t v = q >> raw_count;
  if (v < -15 || v > 15) return kModelEscape;
  return static_cast<uint32_t>(v > 0 ? 2 * v - 1 : -2 * v);
}

// And back; not of the escape.
constexpr int32_t model_value(uint32_t token, uint32_t raw_count, uint32_t raw) {
  const auto half = static_cast<int32_t>((token + 1) / 2);
  return (token % 2 == 1 ? half : -half) * (int32_t{1} << raw_count) + static_cast<int32_t>(raw);
}

// A scale class moved by `offset` quarter octaves, -4 to 4; one without scale stays.
constexpr uint32_t moved_scale(uint32_t scale_class, int32_t offset) {
  if (scale_class >= kScaleClasses) return kZeroScale;
  return static_cast<uint32_t>(
      std::clamp(static_cast<int32_t>(scale_class) + offset, 0, static_cast<int32_t>(kScaleClasses) - 1));
}

// Where each token begins among the 2^15 slots of its row: [row * 32 + token]. A token ends where the next begins, the
// last at 2^15; one that is empty has no frequency. Computed once for each law, in integers: about 3 ms.
using ModelStarts = std::vector<uint16_t>;
const ModelStarts& model_starts(uint32_t law);

// Bits that a normal value of this scale takes, in units of 2^-16: what is expected, whatever the dither is.
uint32_t model_bits(uint32_t scale_class);

// Bits, in the same units, that as many values of each class take if it is not known which value is of which class.
// Those with raw bits count as if it were.
uint64_t mixed_bits(const std::array<uint64_t, kScaleClasses + 1>& counts);

// Frequency << 16 | start of each token: [row * 32 + token].
const std::vector<uint32_t>& model_infos(uint32_t law);

// The same of one token.
inline uint32_t model_info(const uint16_t* row, uint32_t token) {
  const uint32_t start = row[token], end = token + 1 < kModelTokens ? row[token + 1] : 1u << kModelPrecision;
  return (end - start) << 16 | start;
}

}  // namespace gradcodec
