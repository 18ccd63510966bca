// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <limits>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

TEST_CASE("mask by hand") {
  const VectorTensor tensor({4, 0, -0.0F, 1e-45F, 0, 0, 0, 0, -3});
  const RoundTrip out = round_trip(tensor, "mask", {1, {}, {}}, 4);
  CHECK(same_bits(out.decoded, std::vector<float>{1, 0, 0, 1, 0, 0, 0, 0, 1}));
  CHECK(out.stored == Bytes{std::byte{2}, std::byte{0}, std::byte{1}});
  CHECK(out.chunks[0].streams.empty());
  CHECK_FALSE(out.chunks[0].params.empty());
  CHECK(out.chunks[1].params.empty());
  CHECK(out.chunks[2].params.empty());  // all of one element
}

TEST_CASE("mask of a mask is the same") {
  std::vector<float> x(10'000, 0.0F);
  for (size_t i = 0; i < x.size(); i += 37) x[i] = 1;
  CHECK(same_bits(round_trip(VectorTensor(x), "mask", {1, {}, {}}).decoded, x));
}

TEST_CASE("mask says of each error what it is, and promises nothing") {
  const OneChunk out = one_chunk(VectorTensor({4, 0, -1}), "mask");
  CHECK(out.laws == std::vector<Law>{Law::at(-3), Law::at(0), Law::at(2)});
  CHECK_FALSE(out.promise.unbiased);
  CHECK_FALSE(out.promise.projection);
  CHECK_FALSE(out.promise.delta);
}

TEST_CASE("mask keeps exceptions, which are no places") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1, inf, 0, -1e38F};
  const RoundTrip out = round_trip(VectorTensor(x), "mask", {1, {}, {}}, 4096, Nonfinite::keep);
  CHECK(out.decoded == x);
  CHECK(out.stored == Bytes{std::byte{1}});
}
