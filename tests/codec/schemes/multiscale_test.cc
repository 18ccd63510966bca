// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/support.h"

using namespace gradcodec;

TEST_CASE("multiscale: the finest scale at which a value fits, chosen before it is rounded") {
  // s = 63 and 1023 over W = 1: the finer scale reaches 63 / 1023.
  const float limit = 63.0F / 1023;
  const std::vector<float> x = {1, limit * 0.999F, limit * 1.001F, -limit / 2, 0, 63.5F / 1023};
  const OneChunk chunk = one_chunk(VectorTensor(x), "multiscale:bits=6-10");
  CHECK(chunk.code.streams[0].symbols == std::vector<uint16_t>{0, 1, 0, 1, 1, 0});
  for (const uint16_t symbol : chunk.code.streams[1].symbols) CHECK(symbol <= 126);
  CHECK(chunk.laws[3].hi - chunk.laws[3].lo == Approx(1.0 / 1023));
  CHECK(chunk.laws[5].hi - chunk.laws[5].lo == Approx(1.0 / 63));
}

TEST_CASE("multiscale: a value just beyond a scale is not biased") {
  // Choosing after rounding would move the mean of 63.5 / 1023 by -2.4e-4.
  const size_t n = 200000;
  std::vector<float> x(n, 63.5F / 1023);
  x[0] = 1;
  Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, n};
  const OneChunk chunk = one_chunk(VectorTensor(x), "multiscale:bits=6-10", inputs);
  double mean = 0, variance = 0;
  for (size_t i = 1; i < n; ++i) {
    mean += static_cast<double>(chunk.decoded[i]) / (n - 1);
    variance -= chunk.laws[i].lo * chunk.laws[i].hi / (n - 1);
  }
  const double deviation = std::sqrt(variance / (n - 1));
  CHECK(std::fabs(mean - static_cast<double>(x[1])) < 6 * deviation);
  CHECK(6 * deviation < 1.2e-4);  // the bias would be seen
}

TEST_CASE("multiscale: never worse than the coarsest scale alone") {
  std::vector<float> x;
  for (int i = 0; i < 1000; ++i) x.push_back(std::ldexp(1.0F, -(i % 12)) * static_cast<float>(1 + i % 7) / 7);
  const VectorTensor tensor(x);
  const double both = *one_chunk(tensor, "multiscale:bits=4-8").promise.variance;
  const double coarse = *one_chunk(tensor, "maxnorm:bits=4").promise.variance;
  CHECK(both < coarse / 2);
  CHECK(both > 0);
}

TEST_CASE("multiscale: two to eight rising numbers of bits") {
  CHECK(parse_scheme("multiscale").stored_text() == "multiscale");
  CHECK(parse_scheme("multiscale:bits=6-10").stored_text() == "multiscale:bits=6-10");
  for (const char* text :
       {"multiscale:bits=4", "multiscale:bits=8-4", "multiscale:bits=4-4", "multiscale:bits=4-16",
        "multiscale:bits=0-3", "multiscale:bits=4-", "multiscale:bits=1-2-3-4-5-6-7-8-9", "multiscale:bits=04-8"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_scheme(text), Catch::Contains("'bits' takes"));
  }
}

TEST_CASE("multiscale: steps that do not fall are refused") {
  const SchemeChoice choice = parse_stored_scheme("multiscale");
  const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  const auto restore = [&](float coarse, float fine) {
    Bytes stored;
    put(stored, coarse);
    put(stored, fine);
    ByteReader reader(stored, "stored");
    choice.restore(reader, inputs);
  };
  CHECK_NOTHROW(restore(1, 0.5F));
  CHECK_NOTHROW(restore(0, 0));
  CHECK_NOTHROW(restore(0x1p-126F, 0x1p-126F));
  CHECK_THROWS_AS(restore(1, 1), Error);
  CHECK_THROWS_AS(restore(0.5F, 1), Error);
  CHECK_THROWS_AS(restore(1, 0), Error);
  CHECK_THROWS_AS(restore(1, -0.5F), Error);
  CHECK_THROWS_AS(restore(1, 0x1p-127F), Error);
}
