// Sums of schemes: what each part is given, draws and stages, promises, what may be a part.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/plus.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

std::vector<float> sent(const std::vector<float>& values, std::string_view scheme, uint64_t chunk_len = 4096) {
  return round_trip(VectorTensor(values), scheme, {5, 1, 2}, chunk_len).decoded;
}

Inputs inputs_at(uint8_t stage) { return {Random({5, 1, 2}, 0), stage, 4096}; }

Promise promise_of(const Tensor& tensor, std::string_view scheme) {
  return parse_scheme(scheme).prepare(tensor, inputs_at(kFirstStage))->promise();
}

double squares(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += double{value} * double{value};
  return sum;
}

std::string refusal(std::string_view text) {
  try {
    parse_scheme(text);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::usage);
    return error.text();
  }
  return "";
}

}  // namespace

TEST_CASE("a sum by hand") {
  const std::vector<float> x = {3, 1, -1, -5};  // signs: 2.5 2.5 -2.5 -2.5, which leaves 0.5 -1.5 1.5 -2.5
  CHECK(sent(x, "sign+topk:k=1") == std::vector<float>{2.5, 2.5, -2.5, -5});
  CHECK(sent(x, "ef/sign+topk:k=1") == std::vector<float>{2.5, 2.5, -2.5, -5});
  CHECK(sent(x, "sign+topk:k=1+topk:k=1") == std::vector<float>{2.5, 1, -2.5, -5});
  CHECK(sent(x, "sign+topk:k=1", 2) == std::vector<float>{2.5, 2.5, -2.5, -5});
  CHECK(sent(x, "topk:k=2/sign+topk:k=4") == x);
}

TEST_CASE("texts of sums: / binds tighter, memory covers all") {
  const SchemeChoice sum = parse_scheme("topk:k=1%/qsgd:s=4+sign+dither:nmse=0.1");
  CHECK(sum.stored_text() == "topk/qsgd:s=4,bucket=512+sign+dither");
  CHECK(parse_stored_scheme(sum.stored_text()).stored_text() == sum.stored_text());
  CHECK(sum.scheme == &plus_scheme());
  CHECK(sum.rest->scheme->name() == "dither");
  CHECK(sum.inner->inner->scheme->name() == "topk");
  CHECK(sum.draws());
  const SchemeChoice remembered = parse_scheme("ef/sign+qsgd:s=4");
  CHECK(remembered.scheme->name() == "ef");
  CHECK(remembered.inner->scheme == &plus_scheme());
  CHECK(parse_stored_scheme("ef/sign+dither").stored_text() == "ef/sign+dither");
}

TEST_CASE("what may not be part of a sum") {
  CHECK_THAT(refusal("raw+sign"), Catch::Contains("stands alone"));
  CHECK_THAT(refusal("sign+raw"), Catch::Contains("stands alone"));
  CHECK_THAT(refusal("sign+ef/sign"), Catch::Contains("memory"));
  CHECK_THAT(refusal("at+sign"), Catch::Contains("stands first"));
  CHECK_THAT(refusal("sign+ndqsg:fine=3,coarse=1"), Catch::Contains("stands alone"));
  CHECK_THAT(refusal("bq:clip=1,bits=4,m=32+sign"), Catch::Contains("stands alone"));
  CHECK_THAT(refusal("sum+sign"), Catch::Contains("codes no dump"));
  CHECK_THAT(refusal("sign+"), Catch::Contains("no scheme ''"));
  CHECK_THAT(refusal("dgc:k=1%+sign"), Catch::Contains("beside it"));
  CHECK_THAT(refusal("sign+sign+sign+sign+sign+sign+sign+sign+sign"), Catch::Contains("9 stages"));
  CHECK_THROWS_WITH(parse_stored_scheme("sign+sum"), Catch::Contains("no part of a sum"));
  const VectorTensor tensor(varied(100));
  CHECK_THROWS_WITH(promise_of(tensor, "countsketch:rows=3,cols=10+sign"), Catch::Contains("part of a sum"));
  CHECK_THROWS_WITH(promise_of(tensor, "sign+countsketch:rows=3,cols=10"), Catch::Contains("part of a sum"));
}

TEST_CASE("the last part codes x less what the others decode to, by the draws of stage 16") {
  const std::vector<float> x = varied(10001);
  const RoundTrip whole = round_trip(VectorTensor(x), "dqsg:levels=3+dqsg:levels=5", {5, 1, 2});
  const std::vector<float> first = sent(x, "dqsg:levels=3");
  std::vector<float> left(x.size());
  for (size_t i = 0; i < x.size(); ++i) left[i] = x[i] - first[i];
  const VectorTensor rest(left);
  const auto encoder = parse_scheme("dqsg:levels=5").prepare(rest, inputs_at(16));
  std::vector<float> expected = first;
  for (const Range range : chunks_of(x.size(), 4096)) {
    std::vector<float> decoded(range.count);
    Code code;
    encoder->encode(range, code, decoded);
    for (size_t i = 0; i < decoded.size(); ++i) expected[range.first + i] += decoded[i];
  }
  CHECK(same_bits(whole.decoded, expected));
}

TEST_CASE("an nmse behind + is relative to the tensor itself") {
  const VectorTensor tensor(varied(5000));
  const double energy = squares(tensor.values());
  for (const std::string first : {"topk:k=30%", "sign", "qsgd:s=2", "topk:k=10%/qsgd:s=4"}) {
    for (const std::string nmse : {"0.1", "0.001"}) {
      INFO(first << " " << nmse);
      const Promise promise = promise_of(tensor, first + "+dither:nmse=" + nmse);
      CHECK(promise.unbiased);
      CHECK(*promise.variance == Approx(std::stod(nmse) * energy).epsilon(1e-6));
      CHECK(*promise.omega == Approx(std::stod(nmse)).epsilon(1e-6));
      CHECK(*promise.variance <= *promise.omega * energy);
      const Promise lattice = promise_of(tensor, first + "+lattice:nmse=" + nmse);
      CHECK(*lattice.omega == Approx(std::stod(nmse)).epsilon(1e-5));
    }
  }
}

TEST_CASE("promises of sums: the last part's, of what is left") {
  const VectorTensor tensor(varied(5000));
  const Promise unbiased = promise_of(tensor, "topk:k=50%+qsgd:s=4,bucket=0,norm=l2");
  const double omega = *promise_of(tensor, "qsgd:s=4,bucket=0,norm=l2").omega;
  CHECK(unbiased.unbiased);
  CHECK(*unbiased.omega <= omega * 0.5 * (1 + 1e-9));  // what top-k leaves is at most half
  CHECK(*unbiased.variance <= *unbiased.omega * squares(tensor.values()));
  CHECK_FALSE(promise_of(tensor, "qsgd:s=4+topk:k=50%").unbiased);
  const Promise both = promise_of(tensor, "topk:k=50%+topk:k=50%");
  CHECK(*both.delta == Approx(0.75).epsilon(1e-9));
}

TEST_CASE("sums keep values that cannot be coded") {
  std::vector<float> x = varied(5000);
  x[17] = std::bit_cast<float>(0x7FC12345U);
  x[4999] = -std::numeric_limits<float>::infinity();
  x[4100] = 1e38F;
  const VectorTensor tensor(x);
  for (const std::string text : {"sign+dither:nmse=0.1", "topk:k=1%+qsgd:s=4", "dither:nmse=1+rotate/dqsg:levels=5"}) {
    INFO(text);
    CHECK_THROWS_WITH(round_trip(tensor, text, {1, {}, {}}), Catch::Contains("element 17"));
    const RoundTrip kept = round_trip(tensor, text, {1, {}, {}}, 4096, Nonfinite::keep);
    CHECK(same_bits(kept.decoded, kept.promised));
    CHECK(std::bit_cast<uint32_t>(kept.decoded[17]) == 0x7FC12345U);
    CHECK(kept.decoded[4999] == x[4999]);
    CHECK(kept.decoded[4100] == 1e38F);
  }
}

TEST_CASE("a regular exception of a sum is refused") {
  const VectorTensor tensor({1, 2, 3});
  const auto encoder = parse_scheme("sign+dither:nmse=0.1").prepare(tensor, inputs_at(kFirstStage));
  Code code;
  std::vector<float> decoded(3);
  encoder->encode({0, 3}, code, decoded);
  code.exceptions = {{1, std::bit_cast<uint32_t>(2.0F)}};
  CHECK_THROWS_AS(encoder->decoder().decode(code, {0, 3}, decoded), Error);
}

// Each composition of two or three of these, on tensors at edges: decoder and encoder agree, and the last part's errors
// are among those that its laws allow.
TEST_CASE("any parts make a sum that decodes to what its encoder says") {
  const std::vector<std::string> parts = {"sign",
                                          "dither:nmse=0.1",
                                          "topk:k=10%",
                                          "randk:k=30%",
                                          "natural",
                                          "qsgd:s=2,bucket=7",
                                          "topk:k=20%/qsgd:s=4",
                                          "onebit:axis=row",
                                          "uniform:bits=4",
                                          "rotate:block=16/dqsg:levels=5",
                                          "lowrank:rank=3",
                                          "choose:nmse=0.3",
                                          "multiscale",
                                          "lattice:nmse=0.1",
                                          "eden:bits=2"};
  const std::vector<VectorTensor> tensors = {
      VectorTensor(varied(1024), 32), VectorTensor(std::vector<float>(60, 0.0F), 6), VectorTensor(std::vector<float>{}),
      VectorTensor({0x1p126F, -0x1p126F, 0x1p-149F, 1})};
  uint32_t state = 1;
  for (const std::string& a : parts) {
    for (const std::string& b : parts) {
      state = state * 1664525 + 1013904223;
      const std::string text = (state >> 30 == 0 ? parts[(state >> 16) % parts.size()] + "+" : "") + a + "+" + b;
      for (const VectorTensor& tensor : tensors) {
        INFO(text << " on " << tensor.size());
        const RoundTrip trip = round_trip(tensor, text, {3, 1, {}}, 256);
        CHECK(same_bits(trip.decoded, trip.promised));
        for (const float value : trip.decoded) CHECK(std::isfinite(value));
      }
    }
  }
}
