// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "codec/edges.h"
#include "codec/selection.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

std::vector<float> sent(const std::vector<float>& x, std::string_view scheme, const MessageId& id,
                        uint64_t chunk_len = 4096) {
  const RoundTrip out = round_trip(VectorTensor(x), scheme, id, chunk_len);
  REQUIRE(same_bits(out.promised, out.decoded));
  return out.decoded;
}

Promise promise_of(const std::vector<float>& x, std::string_view scheme) {
  const VectorTensor tensor(x);
  const Inputs inputs{Random({5, 1, 2}, 0), kFirstStage, 4096, Nonfinite::keep};
  return parse_scheme(scheme).prepare(tensor, inputs)->promise();
}

}  // namespace

TEST_CASE("randk by hand: two of four, doubled, each pair as often") {
  const std::vector<float> x = {4, -3, 2, 1};
  CHECK(promise_of(x, "randk:k=2").variance == Approx(30));
  CHECK(*promise_of(x, "randk:k=2").omega == Approx(1));
  std::map<std::vector<float>, int> seen;
  constexpr int kTrials = 6000;
  double error = 0;
  for (int worker = 0; worker < kTrials; ++worker) {
    const std::vector<float> y = sent(x, "randk:k=2", {8, worker, 0});
    ++seen[y];
    for (size_t i = 0; i < 4; ++i) {
      CHECK((y[i] == 0 || y[i] == 2 * x[i]));
      error += static_cast<double>((y[i] - x[i]) * (y[i] - x[i])) / kTrials;
    }
    CHECK(std::count(y.begin(), y.end(), 0.0F) == 2);
  }
  // The pair {0, 2} of them is (8, 0, 4, 0).
  CHECK(seen.count({8, 0, 4, 0}) == 1);
  CHECK(seen.size() == 6);
  for (const auto& [y, times] : seen) CHECK(std::abs(times - 1000) < 5 * 29);  // deviation sqrt(6000 5/36)
  CHECK(std::abs(error - 30) < 5 * 22 / std::sqrt(static_cast<double>(kTrials)));
}

TEST_CASE("randk draws the same elements whatever the chunks, and others for every worker and tensor") {
  std::vector<float> x(3000, 1.0F);
  const std::vector<float> y = sent(x, "randk:k=10%", {1, 2, 3});
  CHECK(std::count(y.begin(), y.end(), 10.0F) == 300);
  CHECK(std::count(y.begin(), y.end(), 0.0F) == 2700);
  CHECK(sent(x, "randk:k=10%", {1, 2, 3}, 64) == y);
  CHECK(sent(x, "randk:k=10%", {1, 2, 4}) != y);
  CHECK(sent(x, "randk:k=10%", {1, 3, 3}) != y);
  CHECK(round_trip(VectorTensor(x), "randk:k=10%", {1, 2, 3}, 4096, Nonfinite::error, 1).decoded != y);
  CHECK(sent(x, "randk:k=100%", {1, 2, 3}) == x);
}

TEST_CASE("randk with shared=yes draws the same for all workers of a step") {
  const std::vector<float> x(3000, 1.0F);
  const std::vector<float> y = sent(x, "randk:k=10%,shared=yes", {1, 2, 3});
  CHECK(sent(x, "randk:k=10%,shared=yes", {1, 7, 3}) == y);
  CHECK(sent(x, "randk:k=10%,shared=yes", {1, 2, 4}) != y);
  CHECK(sent(x, "randk:k=10%", {1, 2, 3}) != y);
}

TEST_CASE("randk takes the elements of the smallest words") {
  const std::vector<float> x(1000, 2.0F);
  std::vector<uint32_t> words(x.size()), places(x.size());
  kernels::philox_words(Random({1, 2, 3}, 0).draws(Purpose::subset, kFirstStage), 0, words.size(), words.data());
  std::iota(places.begin(), places.end(), 0U);
  std::sort(places.begin(), places.end(), [&](uint32_t a, uint32_t b) { return words[a] < words[b]; });
  std::vector<float> expected(x.size(), 0.0F);
  for (size_t i = 0; i < 125; ++i) expected[places[i]] = 16;
  CHECK(sent(x, "randk:k=125", {1, 2, 3}, 100) == expected);
}

TEST_CASE("randk rounds what it scales once, and keeps exactly what would be too large or too small") {
  const std::vector<float> x = varied(700);
  const std::vector<float> y = sent(x, "randk:k=300", {1, 2, 3});
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK((y[i] == 0 || y[i] == static_cast<float>(static_cast<double>(x[i]) * (700.0 / 300.0))));
  }
  const std::vector<float> large = {0x1p125F, -0x1p126F, 0x1p124F, 1};
  for (uint64_t worker = 0; worker < 20; ++worker) {
    const std::vector<float> z = sent(large, "randk:k=2", {1, worker, 3});
    CHECK((z[0] == 0 || z[0] == 0x1p126F));
    CHECK(z[1] == -0x1p126F);
    CHECK((z[2] == 0 || z[2] == 0x1p125F));
    const std::vector<float> small = {0x1p-126F, 0x1p-149F, 0x1p-128F, -0.0F};
    const std::vector<float> s = sent(small, "randk:k=2", {1, worker, 3});
    CHECK((s[0] == 0 || s[0] == 0x1p-125F));
    CHECK(s[1] == 0x1p-149F);
    CHECK(s[2] == 0x1p-128F);
    CHECK(s[3] == 0);
  }
}

TEST_CASE("randk over an unbiased scheme promises as the two do") {
  const std::vector<float> x = varied(4000);
  const Promise alone = promise_of(x, "randk:k=25%");
  CHECK(alone.unbiased);
  CHECK_FALSE(alone.independent);
  CHECK(*alone.omega == Approx(3));
  CHECK_FALSE(alone.delta);
  CHECK(*promise_of(x, "randk:k=80%").delta == Approx(0.75));
  const Promise over = promise_of(x, "randk:k=25%/dither:nmse=0.5");
  CHECK(over.unbiased);
  CHECK(*over.omega == Approx(5).epsilon(1e-3));
  CHECK_FALSE(over.variance);
}

TEST_CASE("randk's decoder refuses counts that were not drawn") {
  const std::vector<float> x = varied(300);
  const RoundTrip right = round_trip(VectorTensor(x), "randk:k=60", {1, 2, 3}, 200);
  Inputs inputs{Random({1, 2, 3}, 0), kFirstStage, 200};
  inputs.size = 300;
  const SchemeChoice choice = parse_scheme("randk:k=60");
  std::vector<float> out(200);
  const auto decode_first = [&](const Bytes& stored) {
    ByteReader in(stored, "stored");
    const auto decoder = choice.restore(in, inputs);
    const uint64_t kept = decoder->streams({}, {0, 200})[0].count;
    Code code = {{}, right.chunks[0].streams, {}, {}, {}, {}};
    code.streams[0].symbols.resize(kept);
    code.streams[1].bytes.resize(3 * kept);
    decoder->decode(code, {0, 200}, out);
  };
  CHECK_NOTHROW(decode_first(right.stored));
  for (const int change : {-2, 1}) {  // one less might be a selection that ends before its last
    Bytes wrong = right.stored;
    wrong[0] = static_cast<std::byte>(std::to_integer<int>(wrong[0]) + change);
    CHECK_THROWS_WITH(decode_first(wrong), Catch::Contains("than were drawn"));
  }
  Bytes none = right.stored;
  none[0] = none[1] = std::byte{0};
  CHECK_THROWS_WITH(decode_first(none), Catch::Contains("nothing is kept"));
}
