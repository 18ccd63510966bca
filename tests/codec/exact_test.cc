// SPDX-License-Identifier: Apache-2.0
#include "codec/exact.h"

#include <catch2/catch.hpp>
#include <limits>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

TEST_CASE("exact values: the highest byte as a symbol, the others as planes") {
  std::vector<Stream> streams;
  put_exact(std::vector<float>{1.0F, -0x1.020406p-1F}, streams);  // bits 3F800000, BF010203
  REQUIRE(streams.size() == 2);
  CHECK(streams[0].symbols == std::vector<uint16_t>{0x3F, 0xBF});
  CHECK(streams[1].bytes ==
        Bytes{std::byte{0x00}, std::byte{0x03}, std::byte{0x00}, std::byte{0x02}, std::byte{0x80}, std::byte{0x01}});
  const StreamShapes shapes = exact_shapes(2);
  REQUIRE(shapes.size() == 2);
  CHECK(shapes[0].alphabet == 256);
  CHECK(shapes[0].count == 2);
  CHECK(shapes[1].alphabet == 0);
  CHECK(shapes[1].count == 6);
}

TEST_CASE("exact values come back bit for bit, and none that is not regular") {
  std::vector<Stream> streams;
  for (std::vector<float> values : {std::vector<float>{}, {-0.0F, 0x1p-149F, 0x1p126F, -0x1p126F}, varied(1000)}) {
    put_exact(values, streams);
    std::vector<float> out(values.size());
    take_exact(streams, out);
    CHECK(same_bits(out, values));
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (const float wrong : {inf, -inf, std::numeric_limits<float>::quiet_NaN(), 0x1.000002p126F}) {
    put_exact(std::vector<float>{1, wrong, 2}, streams);
    std::vector<float> out(3);
    CHECK_THROWS_WITH(take_exact(streams, out), Catch::Contains("above 2^126"));
  }
}
