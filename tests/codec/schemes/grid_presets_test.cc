// qsgd, adaquant, terngrad, maxnorm, grid, uniform: presets of the quantizer to multiples of a step. The examples are
// those of their literature, worked by hand; laws say what the draws would do.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/edges.h"
#include "codec/schemes/qsgd.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

// The two values that an element may decode to, and the probability of the upper one.
void rounds(const OneChunk& chunk, const std::vector<float>& x, size_t i, double low, double high, double f) {
  INFO("element " << i);
  const Law& law = chunk.laws[i];
  const auto value = static_cast<double>(x[i]);
  REQUIRE(law.kind == Law::two);
  CHECK(value + law.lo == Approx(low).margin(1e-7));
  CHECK(value + law.hi == Approx(high).margin(1e-7));
  CHECK(law.f == Approx(f).margin(1e-6));
}

void is_exactly(const OneChunk& chunk, size_t i, float value) {
  INFO("element " << i);
  CHECK(chunk.decoded[i] == value);
  const Law& law = chunk.laws[i];
  CHECK((law.kind == Law::point || law.f == 0 || law.f == 1));
}

}  // namespace

TEST_CASE("qsgd: values on levels are exact") {
  const std::vector<float> x = {3, -4, 0, 0};
  const OneChunk chunk = one_chunk(VectorTensor(x), "qsgd:s=5");
  CHECK(chunk.decoded == x);
  CHECK(*chunk.promise.variance == 0);
  CHECK(chunk.code.streams[0].symbols == std::vector<uint16_t>{5 + 3, 5 - 4, 5, 5});
}

TEST_CASE("qsgd: neighbours, probabilities, variance and bounds of the example with s = 2") {
  const std::vector<float> x = {3, -4};
  const OneChunk chunk = one_chunk(VectorTensor(x), "qsgd:s=2");
  rounds(chunk, x, 0, 2.5, 5, .2);
  rounds(chunk, x, 1, -5, -2.5, .4);
  CHECK(*chunk.promise.variance == Approx(2.5));
  CHECK(*chunk.promise.max_error == 2.5);
  // Of the bucket's 512 values at most; of these two, A^2 / 4 * 25 = 3.125.
  CHECK(qsgd_omega(2, 2, Norm::l2) * 25 == Approx(3.125));
}

TEST_CASE("qsgd: the max-norm example with s = 3") {
  const std::vector<float> x = {.5F, -1, .25F, 0};
  const OneChunk chunk = one_chunk(VectorTensor(x), "qsgd:s=3,norm=max");
  rounds(chunk, x, 0, 1.0 / 3, 2.0 / 3, .5);
  CHECK(std::fabs(chunk.decoded[1] + 1) < 1e-6F);
  rounds(chunk, x, 2, 0, 1.0 / 3, .75);
  is_exactly(chunk, 3, 0);
  CHECK(*chunk.promise.variance == Approx(.0486111).epsilon(1e-5));
}

TEST_CASE("qsgd: one value is as large as the norm, and stays what it is") {
  std::vector<float> x(300, 0.0F);
  x[17] = -0.1F;
  for (const char* text : {"qsgd:s=1", "qsgd:s=3", "qsgd:s=7,norm=max", "qsgd:s=1000"}) {
    INFO(text);
    const OneChunk chunk = one_chunk(VectorTensor(x), text);
    CHECK(std::fabs(chunk.decoded[17] + 0.1F) <= 0.1F * 0x1p-22F);
    CHECK(chunk.decoded[0] == 0);
  }
}

TEST_CASE("qsgd: no vector passes the declared bound, and a flat one reaches it with one level") {
  CHECK(qsgd_omega(100, 1, Norm::l2) == Approx(9));
  const OneChunk flat = one_chunk(VectorTensor(std::vector<float>(100, 0.5F)), "qsgd:s=1,bucket=0");
  CHECK(*flat.promise.variance == Approx(9 * 25).epsilon(1e-5));
  // The worst of vectors that have k values of one size and the rest of another.
  for (const uint32_t s : {1U, 2U, 3U, 8U, 40U}) {
    for (const uint64_t d : {1U, 2U, 10U, 100U, 700U}) {
      for (const Norm norm : {Norm::l2, Norm::max}) {
        double worst = 0;
        for (uint64_t k = 0; k <= d; k += 1 + d / 16) {
          for (double ratio = 0; ratio <= 1; ratio += 1.0 / 64) {
            const auto many = static_cast<double>(d - k), few = static_cast<double>(k);
            const double norm2 = few + many * ratio * ratio;
            if (norm2 == 0) continue;
            const double scale = norm == Norm::l2 ? std::sqrt(norm2) : (k > 0 ? 1 : ratio);
            const auto variance = [&](double v) {
              const double y = v / scale * s, f = y - std::floor(y);
              return scale * scale / (double{1} * s * s) * f * (1 - f);
            };
            worst = std::max(worst, (few * variance(1) + many * variance(ratio)) / norm2);
          }
        }
        INFO("s " << s << ", d " << d << (norm == Norm::l2 ? ", l2" : ", max"));
        CHECK(worst <= qsgd_omega(d, s, norm) + 1e-9);
        const double lemma =
            std::min(static_cast<double>(d) / (double{1} * s * s), std::sqrt(static_cast<double>(d)) / s);
        if (norm == Norm::l2) CHECK(qsgd_omega(d, s, norm) <= lemma);
      }
    }
  }
}

TEST_CASE("qsgd: the bucket follows from the norm and is always in the file's text") {
  CHECK(parse_scheme("qsgd:s=4").stored_text() == "qsgd:s=4,bucket=512");
  CHECK(parse_scheme("qsgd:s=4,norm=max").stored_text() == "qsgd:s=4,bucket=0");
  CHECK(parse_scheme("qsgd:bucket=7,s=4,norm=max").stored_text() == "qsgd:s=4,bucket=7");
  CHECK_THROWS_WITH(parse_scheme("qsgd:s=4,norm=l1"), Catch::Contains("one of l2, max"));
  CHECK_THROWS_WITH(parse_scheme("qsgd"), Catch::Contains("from 1 to 32767: for example s=4"));
  CHECK_THROWS_AS(parse_stored_scheme("qsgd:s=4"), Error);
  CHECK_THROWS_AS(parse_stored_scheme("qsgd:s=4,norm=l2,bucket=512"), Error);
}

TEST_CASE("adaquant: the smallest s with s^2 loss at least s0^2 loss0") {
  const VectorTensor tensor({0.5F, -0.25F, 0.125F});
  const auto levels = [&](const std::string& losses) {
    const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
    const std::string text = parse_scheme("adaquant:" + losses).prepare(tensor, inputs)->decoder().describe();
    return text.substr(text.find(", ") + 2);
  };
  CHECK(levels("s0=2,loss0=1,loss=1") == "M 2");
  CHECK(levels("s0=2,loss0=2,loss=0.5") == "M 4");
  CHECK(levels("s0=2,loss0=0.3,loss=0.075") == "M 4");
  CHECK(levels("s0=3,loss0=1,loss=0.9999999") == "M 4");
  CHECK(levels("s0=2,loss0=1,loss=100") == "M 1");
  CHECK(levels("s0=2,loss0=1,loss=1e-30") == "M 32767");
  CHECK_THROWS_WITH(parse_scheme("adaquant:s0=2,loss0=1"), Catch::Contains("needs 'loss=...'"));
  CHECK_THROWS_WITH(parse_scheme("adaquant:s0=2,loss0=1,loss=0"), Catch::Contains("'loss'"));
}

TEST_CASE("adaquant: no regular value is set aside, though M is stored") {
  const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  const auto decode = [&](const char* text, float kept) {
    Bytes stored;
    put(stored, 1.0F);  // step
    put_varint(stored, 1);
    ByteReader reader(stored, "stored");
    Code code;
    code.streams = {{3, {1}, {}}};
    code.exceptions = {{0, std::bit_cast<uint32_t>(kept)}};
    std::vector<float> out(1);
    parse_stored_scheme(text).restore(reader, inputs)->decode(code, {0, 1}, out);
  };
  CHECK_NOTHROW(decode("grid", 32768.0F));
  CHECK_THROWS_AS(decode("grid", 32767.0F), Error);
  CHECK_NOTHROW(decode("adaquant:bucket=0", INFINITY));
  CHECK_THROWS_AS(decode("adaquant:bucket=0", 32768.0F), Error);
}

TEST_CASE("terngrad: the example, and clipping about zero") {
  const std::vector<float> x = {.5F, -1, .25F, 0};
  const OneChunk chunk = one_chunk(VectorTensor(x), "terngrad");
  rounds(chunk, x, 0, 0, 1, .5);
  is_exactly(chunk, 1, -1);
  rounds(chunk, x, 2, 0, 1, .25);
  CHECK(*chunk.promise.variance == Approx(.4375));
  std::vector<float> outlier(16, 0.0F);
  outlier[5] = 4;
  const OneChunk clipped = one_chunk(VectorTensor(outlier), "terngrad:clip=2.5");
  CHECK(clipped.decoded[5] == Approx(2.420615));
  CHECK(*clipped.promise.variance == Approx(0).margin(1e-6));
}

TEST_CASE("maxnorm: a shared scale makes the steps of all workers equal, and must reach every value") {
  const VectorTensor one({1, -0.5F}), other({0.25F, 0.3F});
  Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  inputs.shared_scale = 1.5F;
  const SchemeChoice choice = parse_scheme("maxnorm:bits=4");
  const Bytes stored = choice.prepare(one, inputs)->decoder().stored();
  CHECK(stored == choice.prepare(other, inputs)->decoder().stored());
  float step;
  std::memcpy(&step, stored.data(), sizeof step);
  CHECK(step * 15 == Approx(1.5));
  inputs.shared_scale = 0.9F;
  CHECK_THROWS_WITH(choice.prepare(one, inputs), Catch::Contains("beyond the shared scale 0.9"));
  CHECK_NOTHROW(choice.prepare(other, inputs));
}

TEST_CASE("grid: multiples of the step that was asked for, whatever the values") {
  const std::vector<float> x = {1, -0.3F, 1e6F, 0};
  const OneChunk chunk = one_chunk(VectorTensor(x), "grid:step=0.25");
  is_exactly(chunk, 0, 1);
  rounds(chunk, x, 1, -.5, -.25, .8);
  CHECK(chunk.decoded[2] == 1e6F);  // beyond 32,767 steps: kept
  CHECK(chunk.code.exceptions.size() == 1);
  CHECK(*chunk.promise.variance <= 4 * 0.25 * 0.25 / 4);
  CHECK_FALSE(chunk.promise.omega);
}

TEST_CASE("uniform: nearest, halves away from zero, and it says that it is biased") {
  const std::vector<float> x = {3, 0.5F, -0.5F, 1.4F, -1.6F, 0};
  const OneChunk chunk = one_chunk(VectorTensor(x), "uniform:bits=3");
  CHECK(chunk.decoded == std::vector<float>{3, 1, -1, 1, -2, 0});
  CHECK_FALSE(chunk.promise.unbiased);
  CHECK(*chunk.promise.max_error == 0.5 * (1 + 6 * 0x1p-24));
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(chunk.laws[i].kind == Law::point);
    CHECK(chunk.laws[i].lo == static_cast<double>(chunk.decoded[i]) - static_cast<double>(x[i]));
  }
  CHECK(parse_scheme("uniform:bits=3").draws() == false);
}

TEST_CASE("uniform: of many levels, no error passes what is said, and some pass half a step") {
  bool passes = false;
  for (size_t n = 3000; n < 3010; ++n) {
    std::vector<float> x(n);
    std::vector<uint32_t> words(n);
    kernels::philox_words({{7, static_cast<uint32_t>(n)}, 0, 0}, 0, n, words.data());
    for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(static_cast<int32_t>(words[i]));
    const OneChunk chunk = one_chunk(VectorTensor(x), "uniform:bits=16");
    const double most = *chunk.promise.max_error, half_step = most / (1 + 0x1p-23 * 32767);
    double largest = 0;
    for (const Law& law : chunk.laws) largest = std::max(largest, std::fabs(law.lo));
    CHECK(largest <= most);
    passes |= largest > half_step;
  }
  CHECK(passes);
}
