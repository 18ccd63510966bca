// SPDX-License-Identifier: Apache-2.0
#include "codec/float16.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace gradcodec;

namespace {

struct Format {
  const char* name;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  std::optional<uint16_t> (*narrow_by)(float, uint32_t);
  uint16_t infinity;
  int mantissa_bits, bias;
};

constexpr Format kFormats[] = {
    {"float16", float16_to_float32, float32_to_float16, narrow_to_float16, 0x7C00, 10, 15},
    {"bfloat16", bfloat16_to_float32, float32_to_bfloat16, narrow_to_bfloat16, 0x7F80, 7, 127},
};

// The value by its definition; exact in float64.
double value_of(const Format& format, uint16_t bits) {
  const int exponent = (bits & 0x7FFF) >> format.mantissa_bits;
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int significand = exponent > 0 ? mantissa + (1 << format.mantissa_bits) : mantissa;
  const double magnitude = std::ldexp(significand, std::max(exponent, 1) - format.bias - format.mantissa_bits);
  return bits >= 0x8000 ? -magnitude : magnitude;
}

bool is_nan(const Format& format, uint16_t bits) { return (bits & 0x7FFF) > format.infinity; }

}  // namespace

TEST_CASE("all 16-bit values widen exactly and come back") {
  for (const Format& format : kFormats) {
    INFO(format.name);
    for (uint32_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      const float wide = format.widen(bits);
      const bool right = is_nan(format, bits)                 ? std::isnan(wide)
                         : (bits & 0x7FFF) == format.infinity ? std::isinf(wide)
                                                              : double{wide} == value_of(format, bits);
      const uint32_t payload = std::bit_cast<uint32_t>(wide) & 0x7FFFFF;
      const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
      if (!right || std::signbit(wide) != (bits >= 0x8000) || format.narrow(wide) != bits ||
          format.narrow_by(wide, 0) != bits || format.narrow_by(wide, 0xFFFFFFFF) != bits ||
          (is_nan(format, bits) && payload != mantissa << (23 - format.mantissa_bits))) {
        FAIL("bits " << i);
      }
    }
  }
}

TEST_CASE("narrowing takes the nearest, the even one of two") {
  for (const Format& format : kFormats) {
    INFO(format.name);
    for (uint16_t low = 0; low < format.infinity - 1; ++low) {
      const auto high = static_cast<uint16_t>(low + 1);
      const double middle = (value_of(format, low) + value_of(format, high)) / 2;
      const auto at = static_cast<float>(middle);
      if (double{at} != middle) continue;  // bfloat16's smallest subnormals: below float32's
      const uint16_t even = low % 2 == 0 ? low : high;
      const bool right = format.narrow(at) == even && format.narrow(-at) == (even | 0x8000) &&
                         format.narrow(std::nextafter(at, 0.0f)) == low &&
                         format.narrow(std::nextafter(at, INFINITY)) == high;
      if (!right) FAIL("between " << low << " and its successor");
    }
  }
  CHECK(float32_to_float16(65504.0f) == 0x7BFF);
  CHECK(float32_to_float16(65519.996f) == 0x7BFF);
  CHECK(float32_to_float16(65520.0f) == 0x7C00);
  CHECK(float32_to_float16(-1e30f) == 0xFC00);
  CHECK(float32_to_float16(0x1p-25f) == 0);
  CHECK(float32_to_float16(0x1.000002p-25f) == 1);
  CHECK(float32_to_float16(-0x1p-149f) == 0x8000);
  CHECK(float32_to_bfloat16(0x1.fffffep127f) == 0x7F80);
  CHECK(float32_to_bfloat16(0x1.fep127f) == 0x7F7F);
}

TEST_CASE("NaN stays NaN, with the payload that fits") {
  CHECK(float32_to_float16(std::bit_cast<float>(0x7F800001u)) == 0x7E00);
  CHECK(float32_to_float16(std::bit_cast<float>(0xFF800001u)) == 0xFE00);
  CHECK(float32_to_float16(std::bit_cast<float>(0x7FC02000u)) == 0x7E01);
  CHECK(float32_to_float16(std::bit_cast<float>(0x7F802000u)) == 0x7C01);
  CHECK(float32_to_bfloat16(std::bit_cast<float>(0x7F80FFFFu)) == 0x7FC0);
  CHECK(narrow_to_bfloat16(std::bit_cast<float>(0xFFC1FFFFu), 0) == 0xFFC1);
  CHECK(narrow_to_float16(INFINITY, 0) == 0x7C00);
  CHECK(narrow_to_float16(-INFINITY, 5) == 0xFC00);
}

TEST_CASE("stochastic narrowing goes up for exactly the fraction p of all words") {
  for (const Format& format : kFormats) {
    INFO(format.name);
    for (uint32_t low = 0; low + 1 < format.infinity; low += low < 40 ? 1 : 37) {
      const double from = value_of(format, static_cast<uint16_t>(low));
      const double gap = value_of(format, static_cast<uint16_t>(low + 1)) - from;
      for (const double p : {0x1p-16, 0x1.8p-7, 0.25, 0.5, 0x1.fp-1, 1 - 0x1p-7, 1 - 0x1p-12}) {
        const auto x = static_cast<float>(from + p * gap);
        const double exact_p = (double{x} - from) / gap;  // a power of two divides: exact
        const auto threshold = static_cast<uint64_t>(exact_p * 0x1p32);
        const auto below = format.narrow_by(x, static_cast<uint32_t>(threshold - 1));
        const auto at = format.narrow_by(x, static_cast<uint32_t>(threshold));
        const auto minus = format.narrow_by(-x, static_cast<uint32_t>(threshold));
        if (threshold == 0 || threshold >> 32 != 0) continue;  // x was rounded to a neighbour
        if (below != low + 1 || at != low || minus != (low | 0x8000)) FAIL("from " << low << ", p " << p);
      }
    }
  }
}

TEST_CASE("stochastic narrowing of tiny values, and at the top") {
  CHECK(narrow_to_float16(0x1p-25f, 0x7FFFFFFF) == 1);  // half of the smallest
  CHECK(narrow_to_float16(0x1p-25f, 0x80000000) == 0);
  CHECK(narrow_to_float16(-0x1p-25f, 0x7FFFFFFF) == 0x8001);
  CHECK(narrow_to_float16(0x1p-56f, 0) == 1);  // p = 2^-32: one word of all
  CHECK(narrow_to_float16(0x1p-56f, 1) == 0);
  CHECK(narrow_to_float16(0x1.fffffep-57f, 0) == 0);
  CHECK(narrow_to_float16(0x1p-149f, 0) == 0);
  CHECK(narrow_to_float16(-0x1p-149f, 0) == 0x8000);
  CHECK(narrow_to_float16(std::nextafter(0x1p-14f, 0.0f), 0) == 0x0400);  // from subnormal to normal
  CHECK(narrow_to_float16(65504.0f, 0) == 0x7BFF);
  CHECK_FALSE(narrow_to_float16(std::nextafter(65504.0f, INFINITY), 0xFFFFFFFF).has_value());
  CHECK_FALSE(narrow_to_float16(-1e38f, 0).has_value());
  CHECK_FALSE(narrow_to_bfloat16(0x1.fffffep127f, 0xFFFFFFFF).has_value());
  CHECK(narrow_to_bfloat16(0x1.fep127f, 0) == 0x7F7F);
  CHECK(narrow_to_bfloat16(0x1p-149f, 0xFFFF) == 1);  // 2^-16 of bfloat16's smallest
  CHECK(narrow_to_bfloat16(0x1p-149f, 0x10000) == 0);
}
