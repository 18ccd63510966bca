// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

TEST_CASE("threshold by hand") {
  const VectorTensor tensor({4, -3, 2, 1, -0.0F, 0.5F});
  const auto kept = [&](std::string_view scheme) { return round_trip(tensor, scheme, {1, {}, {}}, 4).decoded; };
  CHECK(kept("threshold:t=2") == std::vector<float>{4, -3, 2, 0, 0, 0});
  CHECK(kept("threshold:t=2.0000001") == std::vector<float>{4, -3, 0, 0, 0, 0});
  CHECK(kept("threshold:t=5") == std::vector<float>(6, 0.0F));
  CHECK(kept("threshold:t=1e-37") == std::vector<float>{4, -3, 2, 1, 0, 0.5F});
  CHECK_FALSE(std::signbit(kept("threshold:t=1e-37")[4]));
  CHECK(kept("threshold:t=5/dqsg:levels=3") == std::vector<float>(6, 0.0F));
}

TEST_CASE("threshold keeps what is at least t as a real number, not as a float32") {
  // 0.1 as float32 lies above 0.1, and its neighbour below it.
  const float above = 0.1F, below = std::nextafter(above, 0.0F);
  REQUIRE(static_cast<double>(above) > 0.1);
  const VectorTensor tensor({above, below, -above, -below});
  CHECK(round_trip(tensor, "threshold:t=0.1", {1, {}, {}}).decoded == std::vector<float>{above, 0, -above, 0});
  const float lower = 0.7F, upper = std::nextafter(lower, 1.0F);  // here the nearest lies below
  REQUIRE(static_cast<double>(lower) < 0.7);
  const VectorTensor other({lower, upper});
  CHECK(round_trip(other, "threshold:t=0.7", {1, {}, {}}).decoded == std::vector<float>{0, upper});
}

TEST_CASE("threshold keeps exceptions, which pass no threshold") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1, inf, 3, -1e38F};
  const RoundTrip out = round_trip(VectorTensor(x), "threshold:t=2", {1, {}, {}}, 4096, Nonfinite::keep);
  CHECK(out.decoded == std::vector<float>{0, inf, 3, -1e38F});
  CHECK(out.stored == Bytes{std::byte{1}});
}

TEST_CASE("threshold promises how large an error is, and no share of the norm") {
  const VectorTensor tensor(varied(5000));
  const Inputs inputs{Random({5, 1, 2}, 0), kFirstStage, 4096};
  const Promise promise = parse_scheme("threshold:t=0.125").prepare(tensor, inputs)->promise();
  CHECK(promise.projection);
  CHECK_FALSE(promise.unbiased);
  CHECK_FALSE(promise.delta);
  CHECK(promise.max_error == 0.125);
  const Promise over = parse_scheme("threshold:t=0.125/dither:step=1").prepare(tensor, inputs)->promise();
  CHECK(over.max_error == 0.5);
  CHECK_FALSE(over.delta);
}
