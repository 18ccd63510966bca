// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "codec/edges.h"
#include "codec/indices.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

RoundTrip sent(const std::vector<float>& values, std::string_view scheme, uint64_t chunk_len = 4096,
               Nonfinite nonfinite = Nonfinite::error) {
  return round_trip(VectorTensor(values), scheme, {5, 1, 2}, chunk_len, nonfinite);
}

// By sorting, all at once.
std::vector<float> largest(const std::vector<float>& x, size_t k) {
  std::vector<uint32_t> places(x.size());
  std::iota(places.begin(), places.end(), 0U);
  std::stable_sort(places.begin(), places.end(),
                   [&](uint32_t a, uint32_t b) { return std::fabs(x[a]) > std::fabs(x[b]); });
  std::vector<float> out(x.size(), 0.0F);
  for (size_t i = 0; i < k; ++i) out[places[i]] = x[places[i]];
  return out;
}

double energy(const std::vector<float>& x, const std::vector<float>& y) {
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    total += (static_cast<double>(x[i]) - static_cast<double>(y[i])) *
             (static_cast<double>(x[i]) - static_cast<double>(y[i]));
  }
  return total;
}

Promise promise_of(const std::vector<float>& values, std::string_view scheme) {
  const VectorTensor tensor(values);
  const Inputs inputs{Random({5, 1, 2}, 0), kFirstStage, 4096, Nonfinite::keep};
  return parse_scheme(scheme).prepare(tensor, inputs)->promise();
}

}  // namespace

TEST_CASE("topk by hand") {
  const std::vector<float> x = {4, -3, 2, 1};
  CHECK(sent(x, "topk:k=2").decoded == std::vector<float>{4, -3, 0, 0});
  CHECK(energy(x, sent(x, "topk:k=2").decoded) == 5);
  CHECK(promise_of(x, "topk:k=2").delta == 0.5);
  CHECK(promise_of(x, "topk:k=2").variance == 5);
  // Ties by place, also across chunks; signs do not count.
  CHECK(sent({1, -2, 2, -2, 2, 1}, "topk:k=2", 3).decoded == std::vector<float>{0, -2, 2, 0, 0, 0});
  CHECK(sent({1, -2, 2, -2, 2, 1}, "topk:k=3", 3).decoded == std::vector<float>{0, -2, 2, -2, 0, 0});
  // As many as there are, or more; one at least of a share; rounded up.
  CHECK(sent(x, "topk:k=4").decoded == x);
  CHECK(sent(x, "topk:k=9").decoded == x);
  CHECK(sent(x, "topk:k=1%").decoded == std::vector<float>{4, 0, 0, 0});
  CHECK(sent(x, "topk:k=51%").decoded == std::vector<float>{4, -3, 2, 0});
  CHECK(sent(x, "topk:k=100%").decoded == x);
  const std::vector<float> hundred(100, 1.0F), seven = sent(hundred, "topk:k=7%").decoded;
  CHECK(std::count(seven.begin(), seven.end(), 1.0F) == 7);  // 7 / 100 * 100 is more than 7 in float64
  CHECK_THROWS_WITH(parse_scheme("topk:k=0"), Catch::Contains("'k'"));
  CHECK_THROWS_WITH(parse_scheme("topk"), Catch::Contains("needs 'k="));
}

TEST_CASE("a share is that of the decimal number that was written, rounded up") {
  const auto share = [](const char* text, uint64_t of) {
    return std::get<Amount>(parse_scheme("topk:k=" + std::string(text)).params.at("k")).of(of);
  };
  CHECK(share("0.07%", 10000) == 7);
  CHECK(share("0.07%", 10001) == 8);
  CHECK(share("1.1%", 100000) == 1100);
  CHECK(share("2.2%", 100000) == 2200);
  CHECK(share("2.2%", 99999) == 2200);
  CHECK(share("2.2%", 100001) == 2201);
  CHECK(share("0.1%", 1000) == 1);
  CHECK(share("0.1%", 1001) == 2);
  CHECK(share("1e-1%", 1001) == 2);
  CHECK(share("100%", 12345) == 12345);
  CHECK(share("100.00%", 12345) == 12345);
  CHECK(share("1e2%", 12345) == 12345);
  CHECK(share("99.9999999999999%", 10) == 10);
  CHECK(share("1e-300%", 10) == 1);
  CHECK(share("5e-324%", 10) == 1);
  CHECK(share("50%", 0) == 0);
  CHECK(share("1e-300%", 0) == 0);
  constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
  CHECK(share("100%", kAll) == kAll);
  CHECK(share("50%", kAll) == kAll / 2 + 1);
  CHECK(share("12.3456789012345%", 1000000000000000) == 123456789012345);
  CHECK(share("9007199254740991", kAll) == 9007199254740991);
  CHECK(share("9007199254740992", 9007199254740991) == 9007199254740991);
  // Each hundredth of a percent, of totals that it is a whole number of, and of one more.
  for (uint64_t hundredths = 1; hundredths <= 10000; ++hundredths) {
    const std::string rest = std::to_string(hundredths % 100);
    const std::string text = std::to_string(hundredths / 100) + "." + std::string(2 - rest.size(), '0') + rest + "%";
    for (const uint64_t times : {1, 3, 1000}) {
      CHECK(share(text.c_str(), 10000 * times) == hundredths * times);
      CHECK(share(text.c_str(), 10000 * times + 1) == hundredths * times + 1);
    }
  }
  for (const char* text : {"0%", "100.1%", "-1%", "1e-400%", "%", "1%%", "1 %", "0x1%", "nan%"}) {
    INFO(text);
    CHECK_THROWS_WITH(share(text, 5), Catch::Contains("'k'"));
  }
}

TEST_CASE("topk keeps what sorting keeps, bit for bit, in chunks of any length") {
  for (const std::vector<float>& x : {varied(3000), std::vector<float>(500, -0.25F), std::vector<float>(500, 0.0F)}) {
    for (const size_t k : {size_t{1}, size_t{30}, x.size() / 2, x.size()}) {
      for (const uint64_t chunk_len : {100, 4096}) {
        const RoundTrip out = sent(x, "topk:k=" + std::to_string(k), chunk_len);
        CHECK(same_bits(out.decoded, largest(x, k)));
        CHECK(same_bits(out.promised, out.decoded));
        const double total = energy(x, std::vector<float>(x.size()));
        CHECK(energy(x, out.decoded) <= (1 - static_cast<double>(k) / static_cast<double>(x.size())) * total + 1e-12);
      }
    }
  }
  CHECK(std::signbit(sent({-0.0F, 1}, "topk:k=2").decoded[0]));
}

TEST_CASE("topk keeps NaN, infinities and what is too large beside the k") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1, nan, 3, -inf, 2, 1e38F};
  const RoundTrip out = sent(x, "topk:k=2", 4, Nonfinite::keep);
  CHECK(same_bits(out.decoded, std::vector<float>{0, nan, 3, -inf, 2, 1e38F}));
  // More are to be kept than there are other values: exceptions are kept as 0, too.
  CHECK(same_bits(sent(x, "topk:k=5", 4, Nonfinite::keep).decoded, x));
  CHECK(same_bits(sent(x, "topk:k=6/dqsg:levels=255", 4, Nonfinite::keep).promised,
                  sent(x, "topk:k=6/dqsg:levels=255", 4, Nonfinite::keep).decoded));
  CHECK_THROWS_WITH(sent(x, "topk:k=2"), Catch::Contains("element 1 "));
}

TEST_CASE("topk over a quantizer sends what it kept as a tensor of its own") {
  const std::vector<float> x = varied(5000);
  for (const uint64_t chunk_len : {512, 4096}) {
    const RoundTrip out = sent(x, "topk:k=100/dqsg:levels=255", chunk_len);
    const std::vector<float> exact = largest(x, 100);
    std::vector<float> kept;
    for (const float value : exact) {
      if (value != 0) kept.push_back(value);
    }
    REQUIRE(kept.size() == 100);
    const VectorTensor alone(kept);
    const Inputs inputs{Random({5, 1, 2}, 0), kFirstStage + 1, 4096};
    const auto encoder = parse_scheme("dqsg:levels=255").prepare(alone, inputs);
    std::vector<float> expected(kept.size());
    Code code;
    encoder->encode({0, kept.size()}, code, expected);
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      CHECK(out.decoded[i] == (exact[i] == 0 ? 0 : expected[at]));
      at += exact[i] == 0 ? 0 : 1;
    }
    CHECK(same_bits(out.promised, out.decoded));
  }
}

TEST_CASE("topk promises a projection, and over an unbiased scheme a contraction if that is one") {
  const std::vector<float> x = varied(5000);
  const Promise alone = promise_of(x, "topk:k=10%");
  CHECK(alone.projection);
  CHECK_FALSE(alone.unbiased);
  CHECK(alone.delta == 0.1);
  const Promise over = promise_of(x, "topk:k=10%/dither:nmse=0.01");
  REQUIRE(over.delta);
  CHECK(*over.delta == Approx(0.1 * 0.99).epsilon(1e-4));
  const double norm2 = energy(x, std::vector<float>(x.size())), dropped = *alone.variance;
  CHECK(dropped == Approx(energy(x, sent(x, "topk:k=10%").decoded)));
  CHECK(*over.variance == Approx(dropped + 0.01 * (norm2 - dropped)).epsilon(1e-4));
  CHECK_FALSE(promise_of(x, "topk:k=10%/dqsg:levels=3").delta);  // omega = 500 / 12
  CHECK_FALSE(promise_of({}, "topk:k=10%").delta);
  std::vector<float> magnitudes = x;
  for (float& value : magnitudes) value = std::fabs(value);
  std::sort(magnitudes.begin(), magnitudes.end(), std::greater<>());
  CHECK(alone.max_error == static_cast<double>(magnitudes[499]));
}

TEST_CASE("a random scheme before a biased one promises nothing, and decodes all the same") {
  for (const std::string text : {"randk:k=50%/topk:k=10%/dither:nmse=0.01,bucket=7", "randk:k=20%/threshold:t=0.3",
                                 "threshold:t=0.3/randk:k=20%/topk:k=50%"}) {
    for (const std::vector<float>& values : edge_tensors()) {
      INFO(text << " on " << values.size() << " values");
      const RoundTrip out = sent(values, text, 4096);
      CHECK(same_bits(out.promised, out.decoded));
      const Promise promise = promise_of(values, text);
      CHECK_FALSE((promise.unbiased || promise.delta || promise.omega || promise.variance));
    }
  }
}

TEST_CASE("topk's decoder refuses what no encoder writes") {
  const std::vector<float> x = varied(300);
  const SchemeChoice choice = parse_scheme("topk:k=20");
  const RoundTrip right = sent(x, "topk:k=20", 200);
  const auto restore = [&](Bytes stored) {
    Inputs inputs{Random({5, 1, 2}, 0), kFirstStage, 200};
    inputs.size = 300;
    ByteReader in(stored, "stored");
    auto decoder = choice.restore(in, inputs);
    in.expect_end();
    return decoder;
  };
  const auto decoder = restore(right.stored);
  std::vector<float> out(100);
  const Range last{200, 100};
  SECTION("more kept than a chunk has") {
    Bytes wrong;
    put_varint(wrong, 201);
    put_varint(wrong, 0);
    CHECK_THROWS_WITH(restore(wrong), Catch::Contains("more of a chunk is kept"));
  }
  SECTION("a chunk without a count, and one too many") {
    CHECK_THROWS_AS(restore(Bytes(right.stored.begin(), right.stored.end() - 1)), Error);
    Bytes wrong = right.stored;
    put_varint(wrong, 0);
    CHECK_THROWS_WITH(restore(wrong), Catch::Contains("bytes more"));
  }
  SECTION("a value that is not regular") {
    Code code = {right.chunks[1].params, right.chunks[1].streams, {}, {}, {}, {}};
    for (auto& symbol : code.streams[0].symbols) symbol = 0x7F;
    for (auto& byte : code.streams[1].bytes) byte = std::byte{0xFF};
    CHECK_THROWS_WITH(decoder->decode(code, last, out), Catch::Contains("above 2^126"));
  }
  SECTION("an exception without need") {
    Code code = {right.chunks[1].params, right.chunks[1].streams, {{3, 0x3F800000}}, {}, {}, {}};
    CHECK_THROWS_WITH(decoder->decode(code, last, out), Catch::Contains("without need"));
  }
  SECTION("an exception that is kept with a value") {
    ByteReader params(right.chunks[1].params, "params");
    std::vector<uint32_t> places;
    take_indices(params, right.chunks[1].streams[0].symbols.size(), 100, places);
    Code code = {right.chunks[1].params, right.chunks[1].streams, {{places.at(0), 0x7F800000}}, {}, {}, {}};
    CHECK_THROWS_WITH(decoder->decode(code, last, out), Catch::Contains("has a value too"));
  }
}
