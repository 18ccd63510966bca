// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/binomial.h"
#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kChunk = 4096;

std::unique_ptr<Encoder> prepared(const std::string& text, const Tensor& tensor, uint64_t seed = 1) {
  return parse_scheme(text).prepare(tensor, {Random({seed, {}, {}}, 0), kFirstStage, kChunk});
}

// The released integers of all chunks.
std::vector<uint16_t> released(const Encoder& encoder, uint64_t size) {
  std::vector<uint16_t> out;
  Code code;
  for (const Range range : chunks_of(size, kChunk)) {
    encoder.encode(range, code, {});
    out.insert(out.end(), code.streams[0].symbols.begin(), code.streams[0].symbols.end());
  }
  return out;
}

std::unique_ptr<Decoder> restored(const std::string& text, float step, uint8_t stage = kFirstStage) {
  Bytes bytes;
  put(bytes, step);
  ByteReader stored(bytes, "stored");
  return parse_stored_scheme(text).restore(stored, {Random({}, 0), stage, kChunk});
}

std::vector<float> uniform(size_t n, float limit) {
  std::vector<uint32_t> words(n);
  kernels::philox_words({{11, 12}, 0, 0}, 0, n, words.data());
  std::vector<float> x;
  for (const uint32_t word : words) x.push_back((static_cast<float>(word >> 8) * 0x1p-23F - 1) * limit);
  return x;
}

double probability(uint32_t m, uint32_t z) {
  const double n = m, k = z;
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) - n * std::log(2.0));
}

}  // namespace

TEST_CASE("bq decodes to the levels, moved by the noise") {
  // s = 3, m = 2, step 1: without noise -1.5, -0.5, 0.5, 1.5 are y = 1, 2, 3, 4.
  const auto decoder = restored("bq:bits=2,m=2", 1);
  Code code;
  code.streams = {{6, {0, 1, 2, 3, 4, 5}, {}}};
  std::vector<float> out(6);
  decoder->decode(code, {0, 6}, out);
  CHECK(out == std::vector<float>{-2.5F, -1.5F, -0.5F, 0.5F, 1.5F, 2.5F});
  // An odd sum of s and m: a level at 0.
  const auto odd = restored("bq:bits=2,m=3", 0.5F);
  code.streams = {{7, {0, 3, 4}, {}}};
  out.resize(3);
  odd->decode(code, {0, 3}, out);
  CHECK(out == std::vector<float>{-1.5F, 0, 0.5F});
  CHECK_FALSE(std::signbit(out[1]));
}

TEST_CASE("test noise is what the page says: rounding by sub 0, the digits of U by subs 1 and 2") {
  const std::vector<float> x = uniform(3000, 1.3F);
  const VectorTensor tensor(x);
  const std::string text = "bq:clip=1,bits=4,m=32,noise=test";
  const std::vector<uint16_t> y = released(*prepared(text, tensor, 77), x.size());
  const Random random({77, {}, {}}, 0);
  std::array<std::vector<uint32_t>, 3> words;
  for (uint16_t sub = 0; sub < 3; ++sub) {
    words[sub].resize(x.size());
    kernels::philox_words(random.draws(Purpose::rounding, 0, sub), 0, x.size(), words[sub].data());
  }
  const BinomialTable table(32);
  const double step = 0x1.1111120000000p-3;  // 2 / 15, rounded up
  for (size_t i = 0; i < x.size(); ++i) {
    const double t = std::clamp(static_cast<double>(x[i]), -1.0, 1.0), v = ((words[0][i] >> 9) + 0.5) * 0x1p-23;
    const double place = t / step + 7.5;  // of 0 to 15; v decides, but for values within 2^-40 of it
    const uint32_t level = static_cast<uint32_t>(std::floor(place + v));
    const uint64_t digits = uint64_t{words[1][i]} << 32 | words[2][i];
    const uint32_t z = table.sample(digits, [] { return 0U; });
    if (y[i] != level + z) FAIL("element " << i << ": " << y[i] << " for " << level << " + " << z);
  }
}

TEST_CASE("secret noise is never the same; test noise always") {
  const std::vector<float> x = uniform(1000, 1);
  const VectorTensor tensor(x);
  const auto secret = prepared("bq:clip=1,bits=4,m=32", tensor);
  CHECK(released(*secret, x.size()) != released(*secret, x.size()));
  const auto test = prepared("bq:clip=1,bits=4,m=32,noise=test", tensor);
  CHECK(released(*test, x.size()) == released(*test, x.size()));
  CHECK(released(*test, x.size()) != released(*prepared("bq:clip=1,bits=4,m=32,noise=test", tensor, 2), x.size()));
  CHECK(secret->decoder().stored() == test->decoder().stored());
}

TEST_CASE("the mean squared error is that of the worked numbers, with secret noise and with test noise") {
  const std::vector<float> x = uniform(1000000, 1.2F);
  const VectorTensor tensor(x);
  for (const char* text : {"bq:clip=1,bits=4,m=32", "bq:clip=1,bits=4,m=32,noise=test"}) {
    INFO(text);
    const auto encoder = prepared(text, tensor);
    double error = 0, square = 0;
    Code code;
    std::vector<float> decoded(kChunk);
    for (const Range range : chunks_of(x.size(), kChunk)) {
      encoder->encode(range, code, std::span(decoded).first(range.count));
      for (size_t i = 0; i < range.count; ++i) {
        const double e = static_cast<double>(decoded[i]) -
                         std::clamp(static_cast<double>(x[static_cast<size_t>(range.first) + i]), -1.0, 1.0);
        error += e;
        square += e * e;
      }
    }
    const auto n = static_cast<double>(x.size());
    CHECK(std::fabs(error / n) < 6 * std::sqrt(0.14469 / n));
    CHECK(square / n == Approx(0.14469).epsilon(6 * std::sqrt(2 / n)));
    CHECK(*encoder->promise().variance / n == Approx(0.14469).epsilon(1e-3));
  }
}

TEST_CASE("the integer released for a level is that level and binomial noise: secret draws have their law") {
  for (const uint32_t m : {1U, 5U, 32U, 33U, 400U}) {
    INFO(m);
    constexpr size_t kValues = 200000;
    // Of the levels -1.5, -0.5, 0.5, 1.5 the third, exactly.
    const VectorTensor tensor(std::vector<float>(kValues, 0.5F));
    const auto encoder = prepared("bq:clip=1.5,bits=2,m=" + std::to_string(m), tensor);
    std::vector<double> count(m + 4);
    for (const uint16_t y : released(*encoder, kValues)) ++count[y];
    CHECK(count[0] + count[1] + count[m + 3] == 0);
    double chi2 = 0, bins = 0;
    for (uint32_t z = 0; z <= m; ++z) {
      const double expected = kValues * probability(m, z);
      if (expected < 20) continue;
      chi2 += (count[z + 2] - expected) * (count[z + 2] - expected) / expected;
      ++bins;
    }
    CHECK(std::fabs(chi2 - bins) < 7 * std::sqrt(2 * bins) + 5);
  }
}

TEST_CASE("values beyond the clip are at the outermost levels, however large") {
  const std::vector<float> x = {1.5F, 2, 1e38F, std::numeric_limits<float>::max(), -1.5F, -3e38F, -0.0F, 1e-45F};
  const VectorTensor tensor(x);
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto y = released(*prepared("bq:clip=1.5,bits=2,m=1", tensor), x.size());
    for (size_t i = 0; i < 4; ++i) CHECK((y[i] == 3 || y[i] == 4));
    for (size_t i = 4; i < 6; ++i) CHECK((y[i] == 0 || y[i] == 1));
    for (size_t i = 6; i < 8; ++i) CHECK((y[i] >= 1 && y[i] <= 3));
  }
  const auto encoder = prepared("bq:clip=1.5,bits=2,m=1", tensor);
  std::vector<float> scratch(x.size());
  const std::span<const float> limited = encoder->promise().target->read({0, x.size()}, scratch);
  CHECK(std::vector<float>(limited.begin(), limited.end()) ==
        std::vector<float>{1.5F, 1.5F, 1.5F, 1.5F, -1.5F, -1.5F, 0, 1e-45F});
}

TEST_CASE("what is not finite is refused, whatever is asked for") {
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const VectorTensor tensor({0.0F, value});
    for (const Nonfinite policy : {Nonfinite::error, Nonfinite::keep}) {
      const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, kChunk, policy};
      CHECK_THROWS_AS(parse_scheme("bq:clip=1,bits=4,m=32").prepare(tensor, inputs), Error);
    }
  }
}

TEST_CASE("the step is the smallest whose levels reach the clip") {
  for (const char* clip : {"1e-30", "0.001", "0.7", "1", "3", "123456.7", "1e30"}) {
    for (const unsigned bits : {1U, 2U, 4U, 8U, 15U}) {
      INFO(clip << ", " << bits << " bits");
      const VectorTensor tensor({0.0F});
      const auto encoder = prepared("bq:clip=" + std::string(clip) + ",bits=" + std::to_string(bits) + ",m=7", tensor);
      const Bytes stored = encoder->decoder().stored();
      const auto step = ByteReader(stored, "stored").get<float>();
      const double s = (1 << bits) - 1, limit = 2 * static_cast<double>(std::stof(clip));
      CHECK(s * static_cast<double>(step) >= limit);
      CHECK(s * static_cast<double>(std::nextafterf(step, 0)) < limit);
      CHECK(restored("bq:bits=" + std::to_string(bits) + ",m=7", step)->stored() == stored);
    }
  }
}

TEST_CASE("bq refuses what no encoder writes, and parameters that are too much together") {
  for (const float step : {0.0F, -0.0F, -1.0F, 1e-38F, 1e-40F, 1e31F, std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()}) {
    CHECK_THROWS_AS(restored("bq:bits=4,m=32", step), Error);
  }
  const auto decoder = restored("bq:bits=4,m=32", 1);
  Code code;
  code.streams = {{48, {3}, {}}};
  code.exceptions = {{0, 0x7FC00000}};
  std::vector<float> out(1);
  CHECK_THROWS_AS(decoder->decode(code, {0, 1}, out), Error);
  CHECK_THROWS_AS(parse_scheme("bq:clip=1,bits=15,m=32769"), Error);
  CHECK_NOTHROW(parse_scheme("bq:clip=1,bits=15,m=32768"));
  CHECK_NOTHROW(parse_scheme("bq:clip=1,bits=1,m=65534"));
  CHECK_THROWS_AS(parse_stored_scheme("bq:bits=15,m=32769"), Error);
  CHECK_THROWS_AS(parse_stored_scheme("bq:bits=4,m=32,noise=secret"), Error);
}

TEST_CASE("bq stands alone") {
  const VectorTensor tensor({1.0F});
  CHECK_THROWS_AS(parse_scheme("bq:clip=1,bits=4,m=32").prepare(tensor, {Random({}, 0), 1, kChunk}), Error);
  CHECK_THROWS_AS(restored("bq:bits=4,m=32", 1, 1), Error);
  CHECK_THROWS_AS(parse_scheme("bq:clip=1,bits=4,m=32/dqsg:levels=3"), Error);
}

TEST_CASE("the largest m, where a symbol has all its 16 bits") {
  const VectorTensor tensor(uniform(2000, 1));
  const RoundTrip all = round_trip(tensor, "bq:clip=1,bits=1,m=65534,noise=test", {3, {}, {}});
  CHECK(same_bits(all.decoded, all.promised));
  CHECK(all.chunks[0].streams[0].alphabet == 65536);
  double sum = 0;
  for (const float value : all.decoded) sum += static_cast<double>(value) * static_cast<double>(value);
  CHECK(sum / 2000 == Approx(4 * 65534 / 4.0).epsilon(0.2));
}
