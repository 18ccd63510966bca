// The rounding primitive with subtractive dither, one element at a time: scalar.cc is made of it, tests enumerate it.
// For the scalar kernels alone; spec/random.md has the reasons.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "codec/kernels/kernels.h"

#ifdef __FAST_MATH__
#error "results are defined by IEEE arithmetic: build without -ffast-math"
#endif

namespace gradcodec::kernels {

static_assert(FLT_EVAL_METHOD == 0, "float expressions must be computed in float: on 32-bit x86 add -mfpmath=sse");

// v of a word. Exact: an odd multiple of 2^-24 below 1 has at most 24 significant bits.
inline float draw_v(uint32_t word) { return (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f; }

// q for at most 127 levels on a side, of a regular x and step > 0. Clamping a to M first changes nothing, as g is then
// 0, and bounds the conversion; written so that even a NaN, which the caller has excluded, would be in range.
inline int32_t round_float32(float x, float v, float step, float max_level) {
  const float ratio = std::fabs(x / step);
  const float a = ratio < max_level ? ratio : max_level;
  const float k = std::floor(a), g = a - k;  // exact
  const bool up = g > (x >= 0 ? 1.0f - v : v);
  const auto magnitude = static_cast<int32_t>(up ? k + 1 : k);
  return x >= 0 ? magnitude : -magnitude;
}

// q for more levels, of the exact quotient. If two 24-bit numbers have a quotient just below an integer of at most
// 2^15, it is at least 2^-25 below, far more than float64 rounds by, so floor is exact. k step has at most 39 bits, (1
// - v) step 48.
inline int32_t round_float64(float x, float v, float step, float max_level) {
  const double a = std::fabs(double{x}), wide_step = step;
  const double ratio = a / wide_step;
  const double k = std::floor(ratio < max_level ? ratio : double{max_level});
  const double rest = a - k * wide_step;
  const bool up = rest > (x >= 0 ? 1.0 - v : double{v}) * wide_step;
  const double level = up ? k + 1 : k;
  const auto magnitude = static_cast<int32_t>(level < max_level ? level : double{max_level});
  return x >= 0 ? magnitude : -magnitude;
}

// Of a word: kernels.h says what a context is. 2 m + 1 is exact as a float32, whose exponent and two first bits of
// mantissa count quarter octaves.
inline uint16_t dither_context(uint32_t word) {
  const bool mirrored = word < 1u << 31;
  const uint32_t t = word >> 9, m = mirrored ? t : (1u << 23) - 1 - t;
  const uint32_t quarter = std::bit_cast<uint32_t>(static_cast<float>(2 * m + 1)) >> 21;
  constexpr uint32_t kTop = ((127 + 22) << 2) + 3, kBelow = kTop - (kDitherClasses - 1);
  const uint32_t rank = quarter > kBelow ? quarter - kBelow : 0;
  return static_cast<uint16_t>(2 * rank + (mirrored ? 1 : 0));
}

// The decoded value: two float32 operations, after the exact u = v - 0.5.
inline float restore(int32_t q, float v, float step) { return (static_cast<float>(q) - (v - 0.5f)) * step; }

// And where the decoder does not subtract the dither: one operation, +0 for q = 0.
inline float restore_level(int32_t q, float step) { return static_cast<float>(q) * step; }

// The symbol of x among sorted levels. A NaN, which the caller has excluded, would get one of the first two.
inline uint32_t round_to_levels(float x, float v, const float* levels, uint32_t count) {
  const float above = x > levels[0] ? x : levels[0];
  const float clamped = above < levels[count - 1] ? above : levels[count - 1];
  uint32_t low = 0;
  for (uint32_t left = count - 1; left > 1;) {  // the last level that is not above, but the top one
    const uint32_t half = left / 2;
    if (clamped >= levels[low + half]) low += half;
    left -= half;
  }
  const double value = clamped, bottom = levels[low], top = levels[low + 1];
  const bool far = value >= 0 ? value - bottom > (1.0 - v) * (top - bottom) : top - value > v * (top - bottom);
  return low + ((value >= 0) == far);
}

}  // namespace gradcodec::kernels
