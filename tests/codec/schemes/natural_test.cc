// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/support.h"

using namespace gradcodec;

TEST_CASE("natural: the powers of two about a value, and how likely each is") {
  const std::vector<float> x = {3, -5, 0, 4};
  const OneChunk chunk = one_chunk(VectorTensor(x), "natural");
  CHECK(chunk.laws[0].f == 0.5);  // 2 or 4
  CHECK(chunk.laws[0].lo == -1);
  CHECK(chunk.laws[0].hi == 1);
  CHECK(chunk.laws[1].f == 0.75);  // -8 or -4
  CHECK(chunk.laws[1].lo == -3);
  CHECK(chunk.laws[1].hi == 1);
  CHECK(chunk.decoded[2] == 0);
  CHECK(chunk.decoded[3] == 4);
  CHECK(*chunk.promise.variance == 4);  // 1 * 1 + 1 * 3, below 50 / 8
  CHECK(*chunk.promise.omega == 0.125);
}

TEST_CASE("natural: the bound is reached a third of the way up") {
  const OneChunk chunk = one_chunk(VectorTensor(std::vector<float>(10, 4.0F / 3)), "natural");
  CHECK(*chunk.promise.variance == Approx(10 * 16.0 / 9 / 8).epsilon(1e-6));
}

TEST_CASE("natural: each way of rounding is as likely as it should be, to the last draw") {
  // Of all 2^23 draws, as many go up as the mantissa says: counted over the coordinates of one long tensor it is near,
  // so here by its definition on a few mantissas with draws at the threshold.
  for (const uint32_t mantissa : {0U, 1U, 0x400000U, 0x7FFFFFU}) {
    const float x = std::bit_cast<float>(0x3F800000U | mantissa);
    const size_t n = 4096;
    const OneChunk chunk = one_chunk(VectorTensor(std::vector<float>(n, x)), "natural");
    size_t up = 0;
    std::vector<uint32_t> words(n);
    kernels::philox_words(Random({1, {}, {}}, 0).draws(Purpose::rounding, kFirstStage), 0, n, words.data());
    for (size_t i = 0; i < n; ++i) {
      const double v = ((words[i] >> 9) + 0.5) * 0x1p-23;
      const bool expected = mantissa * 0x1p-23 > 1 - v;
      CHECK((chunk.decoded[i] == 2) == expected);
      up += chunk.decoded[i] == 2;
    }
    const double p = mantissa * 0x1p-23;
    CHECK(std::fabs(static_cast<double>(up) - p * n) <= 6 * std::sqrt(n * p * (1 - p)) + 1e-6 * n + 1);
  }
}

TEST_CASE("natural: subnormal values, the largest, and those that are kept") {
  const std::vector<float> x = {1e-45F, 3e-45F, -0x1.8p-130F, 0x1p126F, -0x1p-149F};
  const OneChunk chunk = one_chunk(VectorTensor(x), "natural");
  CHECK(chunk.decoded[0] == 1e-45F);  // 2^-149
  CHECK(chunk.decoded[1] == 3e-45F);  // 2^-148
  CHECK((chunk.decoded[2] == -0x1p-130F || chunk.decoded[2] == -0x1p-129F));
  CHECK(chunk.decoded[3] == 0x1p126F);
  CHECK(chunk.decoded[4] == -0x1p-149F);
  const OneChunk kept = one_chunk(VectorTensor({1, 3e38F}), "natural");
  CHECK(kept.decoded[1] == 3e38F);
  CHECK(kept.code.exceptions.size() == 1);
}

TEST_CASE("natural: exponents that float32 has not are refused") {
  const SchemeChoice choice = parse_stored_scheme("natural");
  const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  const auto restore = [&](const std::vector<uint64_t>& numbers) {
    Bytes stored;
    for (const uint64_t number : numbers) put_varint(stored, number);
    ByteReader reader(stored, "stored");
    return choice.restore(reader, inputs)->stored() == stored;
  };
  CHECK(restore({0}));
  CHECK(restore({276, 0}));
  CHECK(restore({1, 275}));
  CHECK_THROWS_AS(restore({277, 0}), Error);
  CHECK_THROWS_AS(restore({1, 276}), Error);
  CHECK_THROWS_AS(restore({2, 275}), Error);
  CHECK_THROWS_AS(restore({UINT64_MAX, 5}), Error);
  CHECK_THROWS_AS(restore({5, UINT64_MAX}), Error);
}
