// float16 (IEEE 754 binary16) and bfloat16, as their bits, to float32 and back. Integers only: no floating-point
// operation, so nothing depends on rounding modes or on how a machine treats subnormals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace gradcodec {

// Exact. A NaN keeps its sign and payload, the payload's top bit at the top.
float float16_to_float32(uint16_t bits);
float bfloat16_to_float32(uint16_t bits);

// The nearest, to even if two are; what rounds past the largest finite value becomes infinite. A NaN keeps its sign and
// the top of its payload, and is made quiet if nothing of the payload is left.
uint16_t float32_to_float16(float x);
uint16_t float32_to_bfloat16(float x);

// Stochastic narrowing, spec/random.md: |x| lies a fraction p of the way from a 16-bit value to the next larger one;
// with t = floor(2^32 p), exactly, the result is the larger one iff word < t. With a uniform word that is unbiased to
// 2^-32 of the distance, towards zero. Representable values never move, subnormal ones included; infinities and NaN
// pass as above. Nothing if |x| is finite and above the largest finite 16-bit value, where there is no larger one.
std::optional<uint16_t> narrow_to_float16(float x, uint32_t word);
std::optional<uint16_t> narrow_to_bfloat16(float x, uint32_t word);

}  // namespace gradcodec
