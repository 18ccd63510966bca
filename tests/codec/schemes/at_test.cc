// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <catch2/catch.hpp>
#include <limits>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

// Through encoder and decoder, both with the set.
RoundTrip at(const Tensor& tensor, const Tensor& set, std::string_view scheme, Nonfinite nonfinite = Nonfinite::error) {
  const SchemeChoice choice = parse_scheme(scheme);
  Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4, nonfinite};
  inputs.side = &set;
  inputs.size = tensor.size();
  const auto encoder = choice.prepare(tensor, inputs);
  RoundTrip out;
  out.stored = encoder->decoder().stored();
  ByteReader stored(out.stored, "stored");
  const auto decoder = parse_stored_scheme(choice.stored_text()).restore(stored, inputs);
  stored.expect_end();
  for (const Range range : chunks_of(tensor.size(), 4)) {
    std::vector<float> promised(range.count), decoded(range.count);
    Code code;
    encoder->encode(range, code, promised);
    decoder->decode(code, range, decoded);
    out.chunks.push_back(std::move(code));
    out.promised.insert(out.promised.end(), promised.begin(), promised.end());
    out.decoded.insert(out.decoded.end(), decoded.begin(), decoded.end());
  }
  return out;
}

}  // namespace

TEST_CASE("at by hand") {
  const VectorTensor tensor({4, -3, 2, 1, -0.0F, 0.5F, 7, 8, 9}), set({0, 1, 0, 1, 1, 0, 0, 0, 0});
  const RoundTrip out = at(tensor, set, "at");
  CHECK(out.stored.empty());  // how many of each chunk, and where, is in the set
  CHECK(same_bits(out.decoded, std::vector<float>{0, -3, 0, 1, -0.0F, 0, 0, 0, 0}));
  CHECK(same_bits(out.promised, out.decoded));
  CHECK(out.chunks[0].params.empty());
  CHECK(out.chunks[0].streams[0].symbols == std::vector<uint16_t>{0xC0, 0x3F});
  CHECK(out.chunks[2].streams[0].symbols.empty());
}

TEST_CASE("at over a scheme codes what the set asks for as a tensor of its own") {
  const VectorTensor tensor({4, -3, 2, 1, 0, 0.5F, 7, 8, 1000}), set({0, 1, 0, 1, 0, 0, 0, 0, 0});
  const RoundTrip out = at(tensor, set, "at/qsgd:s=3,norm=max,bucket=0");
  CHECK(out.decoded == std::vector<float>{0, -3, 0, 1, 0, 0, 0, 0, 0});  // the step is 1, the largest that is asked for
}

TEST_CASE("without a set every place is one of it") {
  const std::vector<float> x = varied(9000);
  CHECK(same_bits(round_trip(VectorTensor(x), "at", {1, {}, {}}).decoded, x));
}

TEST_CASE("an empty set takes no value, a full one all") {
  const VectorTensor tensor({4, -3, 2, 1, 5, 6});
  CHECK(at(tensor, VectorTensor(std::vector<float>(6, 0.0F)), "at").decoded == std::vector<float>(6, 0.0F));
  CHECK(at(tensor, VectorTensor(std::vector<float>(6, 1.0F)), "at").decoded == tensor.values());
}

TEST_CASE("a set of another tensor is refused") {
  const VectorTensor tensor({4, -3, 2, 1, 5, 6});
  CHECK_THROWS_WITH(at(tensor, VectorTensor({1, 0}), "at"), Catch::Contains("of 2 elements, not of 6"));
}

TEST_CASE("at promises a projection, with the error of what is not asked for") {
  const VectorTensor tensor({3, 4, 5}), set({0, 0, 1});
  Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  inputs.side = &set;
  const OneChunk out = one_chunk(tensor, "at", inputs);
  CHECK(out.promise.projection);
  CHECK(*out.promise.variance == 25);
  CHECK_FALSE(out.promise.delta);
  CHECK_FALSE(out.promise.max_error);
  CHECK(out.laws == std::vector<Law>{Law::at(-3), Law::at(-4), Law::at(0)});
}

TEST_CASE("at keeps exceptions wherever they are") {
  const float inf = std::numeric_limits<float>::infinity();
  const VectorTensor tensor({1, inf, 3, -1e38F}), set({1, 1, 0, 0});
  CHECK(at(tensor, set, "at", Nonfinite::keep).decoded == std::vector<float>{1, inf, 0, -1e38F});
}
