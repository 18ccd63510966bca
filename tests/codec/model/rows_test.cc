// SPDX-License-Identifier: Apache-2.0
#include "codec/model/rows.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace gradcodec;

namespace {

const uint16_t* row_of(uint32_t law, uint32_t scale, uint32_t dither) {
  return model_starts(law).data() + (size_t{scale} * kernels::kDitherClasses + dither) * kModelTokens;
}

double tail(double z) { return std::erfc(z / std::sqrt(2.0)) / 2; }

}  // namespace

TEST_CASE("model rows: frequencies sum to 2^15, 0 and the escape have some; without scale 0 has all") {
  for (uint32_t law = 0; law < kLaws; ++law) {
    for (uint32_t scale = 0; scale <= kZeroScale; ++scale) {
      for (uint32_t dither = 0; dither < kernels::kDitherClasses; ++dither) {
        const uint16_t* row = row_of(law, scale, dither);
        REQUIRE(row[0] == 0);
        for (uint32_t token = 1; token < kModelTokens; ++token) REQUIRE(row[token] >= row[token - 1]);
        if (scale == kZeroScale) {
          REQUIRE(model_info(row, 0) == uint32_t{1} << 31);
        } else {
          REQUIRE(row[1] > 0);
          REQUIRE(model_info(row, kModelEscape) >> 16 > 0);
        }
      }
    }
  }
}

TEST_CASE("model rows: a normal value of a quarter step, by its law") {
  // Class 24 is a scale of 2^(24/4 - 8) = 1/4 step. Dither class 27 is from 7/4 2^-3 to 2^-2 of a step away from where
  // it decides: q is 1 or more if x > d, about 0.234375 on average, and -1 or less if x < -(1 - d).
  const uint16_t* row = row_of(0, 24, 27);
  double above = 0, below = 0;
  constexpr int kParts = 1000;
  for (int i = 0; i < kParts; ++i) {
    const double d = 0.21875 + (i + 0.5) / kParts * 0.03125;
    above += (tail(4 * d) - tail(4 * (1 + d))) / kParts;
    below += tail(4 * (1 - d)) / kParts;
  }
  CHECK((model_info(row, 1) >> 16) / 32768.0 == Approx(above).margin(1e-4));
  CHECK((model_info(row, 2) >> 16) / 32768.0 == Approx(below).margin(1e-4));
}

TEST_CASE("model rows: what a normal value takes is the entropy of q given the dither") {
  // By numerical integration: bits for scales of 1/4, 1/2 and 1 step (classes 24, 28, 32).
  CHECK(model_bits(24) / 65536.0 == Approx(0.6490).margin(0.004));
  CHECK(model_bits(28) / 65536.0 == Approx(1.2540).margin(0.004));
  CHECK(model_bits(32) / 65536.0 == Approx(2.1050).margin(0.004));
  CHECK(model_bits(76) / 65536.0 == Approx(11 + 2.047).margin(0.02));  // log2(s sqrt(2 pi e)) for large scales
  CHECK(model_bits(kZeroScale) == 0);
}

TEST_CASE("model tokens: every q comes back from its token and raw bits, or has the escape") {
  for (uint32_t raw_count = 0; raw_count <= 10; ++raw_count) {
    for (int32_t q = -32767; q <= 32767; ++q) {
      const uint32_t token = model_token(q, raw_count);
      const int32_t v = q >> raw_count;
      REQUIRE((token == kModelEscape) == (v < -15 || v > 15));
      if (token == kModelEscape) continue;
      REQUIRE(model_value(token, raw_count, static_cast<uint32_t>(q) & ((1u << raw_count) - 1)) == q);
    }
  }
}

TEST_CASE("model scales: raw bits begin above three steps, and scales of classes are quarter octaves") {
  CHECK(model_raw_count(38) == 0);  // 2^1.5 = 2.8 steps
  CHECK(model_raw_count(39) == 1);
  CHECK(model_raw_count(42) == 1);
  CHECK(model_raw_count(43) == 2);
  CHECK(model_raw_count(76) == 10);
  CHECK(model_raw_count(kZeroScale) == 0);
  CHECK(scale_class_of(0) == 32);
  CHECK(scale_class_of(1) == 32);
  CHECK(scale_class_of(2) == 33);
  CHECK(scale_class_of(-3) == 31);
  CHECK(scale_class_of(-100000) == 0);
  CHECK(scale_class_of(100000) == 76);
  CHECK(moved_scale(0, -4) == 0);
  CHECK(moved_scale(75, 4) == 76);
  CHECK(moved_scale(kZeroScale, -4) == kZeroScale);
}
