// Stochastic rounding to the levels for a normal law: where they lie, that every value lies among them, and the laws.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/rounded_normal.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/levels/normal.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

const Random kRandom({5, {}, {}}, 0);

Inputs inputs_of(uint64_t chunk_len) { return {kRandom, kFirstStage, chunk_len}; }

std::vector<float> values(size_t n, uint32_t what) {
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words({{what, 9}, 0, 0}, 0, n, words.data());
  std::vector<float> y(n);
  for (size_t i = 0; i < n; ++i) {
    const float part = static_cast<float>(static_cast<int32_t>(words[i]) >> 8) * 0x1p-23F;
    y[i] = part * part * part * 3;
  }
  return y;
}

}  // namespace

TEST_CASE("unit and top of a block: the root mean square, and the largest magnitude") {
  const RoundedScale scale = rounded_scale_of(std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -8});
  CHECK(scale == RoundedScale{2, 8});
  CHECK(rounded_scale_of(std::vector<float>{0.0F, -0.0F}) == RoundedScale{0, 0});
  // Values of one size: the top is that, and the unit a third.
  const RoundedScale flat = rounded_scale_of(std::vector<float>(8, -1.5F));
  CHECK(flat == RoundedScale{0.5F, 1.5F});
  const RoundedScale tiny = rounded_scale_of(std::vector<float>(8, 1e-45F));
  CHECK(tiny == RoundedScale{0x1p-120F, 3 * 0x1p-120F});
}

TEST_CASE("values of one size are kept exactly") {
  std::vector<float> y(64, 0.1F);
  for (size_t i = 0; i < y.size(); i += 3) y[i] = -0.1F;
  const VectorTensor tensor(y);
  for (unsigned bits = 2; bits <= normal::kMaxBits; ++bits) {
    const RoundedNormalEncoder encoder(tensor, {bits, 64}, inputs_of(64));
    Code code;
    std::vector<float> decoded(64);
    encoder.encode({0, 64}, code, decoded);
    CHECK(decoded == y);
  }
}

TEST_CASE("each value becomes one of its two neighbours among the levels, and the laws say which") {
  const std::vector<float> y = values(1000, 1);
  const VectorTensor tensor(y);
  for (unsigned bits = 2; bits <= normal::kMaxBits; ++bits) {
    const RoundedNormalEncoder encoder(tensor, {bits, 128}, inputs_of(1000));
    Code code;
    std::vector<float> decoded(y.size()), again(y.size());
    encoder.encode({0, 1000}, code, decoded);
    encoder.decoder().decode(code, {0, 1000}, again);
    CHECK(same_bits(decoded, again));
    std::vector<Law> laws(y.size());
    encoder.decoder().laws(code, {0, 1000}, y, laws);
    for (size_t i = 0; i < y.size(); ++i) {
      const double error = double{decoded[i]} - double{y[i]};
      INFO(bits << " bits, element " << i);
      REQUIRE((laws[i].kind == Law::two || laws[i].kind == Law::point));
      CHECK((error == laws[i].lo || error == laws[i].hi));
      if (laws[i].kind == Law::two) {
        CHECK((1 - laws[i].f) * laws[i].lo + laws[i].f * laws[i].hi == Approx(0).margin(1e-12));
      }
    }
  }
}

TEST_CASE("the error is at most omega of the squares, whatever the values are") {
  std::vector<float> spread(256, 0.01F), one(256, 0.0F), all = values(256, 3);
  spread[3] = 5;
  one[7] = -1;
  for (const auto& y : {spread, one, all, std::vector<float>(256, 2.0F)}) {
    const VectorTensor tensor(y);
    for (unsigned bits = 2; bits <= normal::kMaxBits; ++bits) {
      const RoundedNormalEncoder encoder(tensor, {bits, 256}, inputs_of(256));
      Code code;
      encoder.encode({0, 256}, code, {});
      std::vector<Law> laws(256);
      encoder.decoder().laws(code, {0, 256}, y, laws);
      double variance = 0, squares = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        if (laws[i].kind == Law::two) variance -= laws[i].lo * laws[i].hi;
        squares += double{y[i]} * double{y[i]};
      }
      const Promise promise = encoder.promise();
      REQUIRE(promise.omega);
      CHECK(variance <= *promise.omega * squares);
    }
  }
}

TEST_CASE("parameters and symbols that no encoder of rounded levels writes are refused") {
  const RoundedNormalDecoder decoder({2, 4}, inputs_of(4));
  Code code;
  code.streams.resize(1);
  code.streams[0].alphabet = 4;
  code.streams[0].symbols = {2, 3, 0, 1};
  std::vector<float> out(4);
  const auto decode = [&](float unit, float top) {
    code.params.clear();
    put(code.params, unit);
    put(code.params, top);
    decoder.decode(code, {0, 4}, out);
  };
  decode(1, 3.5F);
  CHECK(out == std::vector<float>{0.8285143F, 3.5F, -3.5F, -0.8285143F});
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::array<float, 2>> bad = {
      {0, 0},   {0, 1},        {-0.0F, 0},     {-1, 3}, {1, 0.8285143F}, {1, 0},     {1, nan},
      {nan, 1}, {1, infinity}, {0x1p-121F, 1}, {1, -3}, {0x1p127F, 1},   {nan, nan}, {0x1p126F, 0x1p127F}};
  for (const auto& [unit, top] : bad) {
    INFO(unit << ", " << top);
    CHECK_THROWS_WITH(decode(unit, top), Catch::Contains("block 0 of the chunk"));
  }
  code.streams[0].symbols = {2, 2, 2, 2};
  decode(0, 0);
  CHECK(out == std::vector<float>(4, 0.0F));
  CHECK_THROWS_AS(decode(0, -0.0F), Error);
  code.exceptions.push_back({0, 0x7F800000});
  CHECK_THROWS_AS(decode(0, 0), Error);
}
