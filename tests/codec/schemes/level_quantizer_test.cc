// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/level_quantizer.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/support.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kChunk = 4096;

Inputs inputs_of(uint64_t seed) { return {Random({seed, {}, {}}, 0), kFirstStage, kChunk}; }

LevelLayout scaled_layout(std::vector<float> levels, uint64_t bucket) {
  LevelLayout layout;
  layout.levels = std::move(levels);
  layout.scaled = true;
  layout.bucket = bucket;
  return layout;
}

LevelChoice choice_for(const std::vector<float>& levels) {
  LevelChoice choice;
  choice.rule = [levels](std::span<const float> x) { return covering_scale(0, extent_of(x).max, levels); };
  return choice;
}

struct Coded {
  Bytes stored;
  std::vector<Code> chunks;
  std::vector<float> decoded;
};

// Through the stored form of everything but the layout's levels.
Coded coded(const LevelEncoder& encoder, LevelLayout layout, uint64_t size, uint64_t seed) {
  Coded out;
  out.stored = encoder.decoder().stored();
  ByteReader stored(out.stored, "stored");
  const auto decoder = LevelDecoder::restore(std::move(layout), stored, inputs_of(seed));
  stored.expect_end();
  for (const Range range : chunks_of(size, kChunk)) {
    Code code;
    std::vector<float> promised(range.count), decoded(range.count);
    encoder.encode(range, code, promised);
    decoder->decode(code, range, decoded);
    REQUIRE(same_bits(promised, decoded));
    CHECK(code.params.size() == decoder->params_size(range));
    CHECK(code.streams[0].alphabet == decoder->streams(code, range)[0].alphabet);
    out.chunks.push_back(std::move(code));
    out.decoded.insert(out.decoded.end(), decoded.begin(), decoded.end());
  }
  return out;
}

std::vector<float> smooth(size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = std::sin(static_cast<float>(i)) * std::sin(static_cast<float>(i) / 997);
  return x;
}

double squares_between(std::span<const float> x, std::span<const float> y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
  return sum;
}

}  // namespace

TEST_CASE("the variance between neighbours is the product of the distances") {
  // Levels 0, 1/8, 1/4, 1/2, 1 and v = (1, -2, 2), N = 3: r = 1/3, 2/3, 2/3, and 9 (1/72 + 1/18 + 1/18).
  const std::vector<float> magnitudes = {0.125F, 0.25F, 0.5F, 1};
  LevelLayout layout = scaled_layout(mirrored_levels(magnitudes, true), 0);
  layout.scale = 3;
  const VectorTensor three({1, -2, 2});
  const LevelEncoder encoder(three, layout, inputs_of(1), {});
  CHECK(*encoder.promise().variance == Approx(1.125).epsilon(1e-12));
  CHECK(*encoder.promise().max_error == 1);
  // Without 0, +-{1, 1/2} and v = (3, -4, 0), N = 5: 25 (0.04 + 0.06 + 0.25).
  LevelLayout symmetric = scaled_layout(mirrored_levels(std::vector<float>{0.5F, 1}, false), 0);
  symmetric.scale = 5;
  const VectorTensor other({3, -4, 0});
  CHECK(*LevelEncoder(other, symmetric, inputs_of(1), {}).promise().variance == Approx(8.75).epsilon(1e-12));
}

TEST_CASE("values decode to a neighbour, unbiased and with the variance promised") {
  const std::vector<float> x = smooth(9001);
  const VectorTensor tensor(x);
  for (const bool with_zero : {true, false}) {
    for (const uint64_t bucket : {uint64_t{0}, uint64_t{1}, uint64_t{100}, uint64_t{5000}}) {
      LevelLayout layout = scaled_layout(mirrored_levels(std::vector<float>{0.11F, 0.3F, 1}, with_zero), bucket);
      if (bucket == 0) layout.scale = covering_scale(0, extent_of(x).max, layout.levels);
      INFO("bucket " << bucket << (with_zero ? "" : ", no 0"));
      std::vector<double> sum(x.size());
      double squares = 0, along = 0;
      constexpr uint64_t kTrials = 60;
      for (uint64_t seed = 0; seed < kTrials; ++seed) {
        const LevelEncoder encoder(tensor, layout, inputs_of(seed), choice_for(layout.levels));
        const Coded trip = coded(encoder, layout, x.size(), seed);
        squares += squares_between(trip.decoded, x);
        for (size_t i = 0; i < x.size(); ++i) {
          along += (static_cast<double>(trip.decoded[i]) - static_cast<double>(x[i])) * static_cast<double>(x[i]);
        }
      }
      const Promise promise = LevelEncoder(tensor, layout, inputs_of(0), choice_for(layout.levels)).promise();
      if (bucket == 1) {
        CHECK(*promise.variance == 0);  // each value is its own scale
        CHECK(squares == 0);
        continue;
      }
      // Six standard deviations: of `along` at most sqrt(T V max x^2), of the squares at most sqrt(T V max e^2).
      CHECK(std::fabs(along) < 6 * std::sqrt(kTrials * *promise.variance));
      CHECK(std::fabs(squares - kTrials * *promise.variance) <
            6 * std::sqrt(kTrials * *promise.variance) * *promise.max_error);
    }
  }
}

TEST_CASE("laws say where each value may go, and how often") {
  const std::vector<float> x = {0.5F, -0.2F, 0, 1, 0.3F};
  const VectorTensor tensor(x);
  LevelLayout layout = scaled_layout(mirrored_levels(std::vector<float>{0.25F, 1}, true), 2);
  const LevelEncoder encoder(tensor, layout, inputs_of(3), choice_for(layout.levels));
  Code code;
  encoder.encode({0, 5}, code, {});
  std::vector<Law> laws(5);
  encoder.decoder().laws(code, {0, 5}, x, laws);
  CHECK(laws[0].kind == Law::point);  // N = 0.5
  CHECK(laws[1].kind == Law::two);    // of -0.2 between -0.5 and -0.125
  CHECK(laws[1].lo == static_cast<double>(-0.5F) - static_cast<double>(-0.2F));
  CHECK(laws[1].hi == static_cast<double>(-0.125F) - static_cast<double>(-0.2F));
  CHECK(laws[1].f == Approx(0.8));
  CHECK((laws[2].kind == Law::point && laws[2].lo == 0));
  CHECK((laws[3].kind == Law::point && laws[3].lo == 0));
  const std::vector<float> beyond = {0.75F, 0, 0, 1, 0.3F};
  encoder.decoder().laws(code, {0, 5}, beyond, laws);
  CHECK(laws[0].kind == Law::outside);
}

TEST_CASE("levels without a scale are the values, and what lies beyond is limited to them") {
  LevelLayout layout;
  layout.levels = {-1, -0.25F, 0.25F, 1};
  layout.stored = {std::byte{42}};
  const std::vector<float> x = {3, -3, 0.5F, std::numeric_limits<float>::infinity(), 0.25F};
  const VectorTensor tensor(x);
  LevelChoice choice;
  choice.clip = choice.exceptions = true;
  const LevelEncoder encoder(tensor, layout, inputs_of(5), choice);
  CHECK(encoder.decoder().stored() == Bytes{std::byte{42}});
  Code code;
  std::vector<float> decoded(5);
  encoder.encode({0, 5}, code, decoded);
  CHECK(decoded[0] == 1);
  CHECK(decoded[1] == -1);
  CHECK((decoded[2] == 0.25F || decoded[2] == 1));
  CHECK(decoded[3] == x[3]);
  CHECK(decoded[4] == 0.25F);
  CHECK(code.streams[0].symbols[3] == 0);  // there is no symbol for 0
  std::vector<float> room(5);
  const Promise promise = encoder.promise();
  const auto target = promise.target->read({0, 5}, room);
  CHECK(std::vector<float>(target.begin(), target.end()) == std::vector<float>{1, -1, 0.5F, x[3], 0.25F});
  CHECK(*promise.variance == Approx(0.25 * 0.5));
}

TEST_CASE("no levels at all: every value is 0") {
  const VectorTensor tensor(std::vector<float>(100, 0.0F));
  const LevelEncoder encoder(tensor, {}, inputs_of(5), {});
  const Coded trip = coded(encoder, {}, 100, 5);
  CHECK(trip.stored.empty());
  CHECK(trip.chunks[0].streams[0].alphabet == 1);
  CHECK(same_bits(trip.decoded, std::vector<float>(100, 0.0F)));
  CHECK(*encoder.promise().variance == 0);
}

TEST_CASE("a bucket of zeros has scale 0, and its draws are not used") {
  std::vector<float> x(300, 0.0F);
  x[150] = 2;
  const VectorTensor tensor(x);
  LevelLayout layout = scaled_layout(mirrored_levels(std::vector<float>{0.5F, 1}, false), 100);
  const Coded trip = coded(LevelEncoder(tensor, layout, inputs_of(9), choice_for(layout.levels)), layout, 300, 9);
  CHECK(ByteReader(trip.chunks[0].params, "scale").get<float>() == 0);
  for (size_t i = 0; i < 100; ++i) {
    CHECK(std::bit_cast<uint32_t>(trip.decoded[i]) == 0);
    CHECK(trip.chunks[0].streams[0].symbols[i] == 0);
  }
  CHECK(trip.decoded[150] == 2);
}

TEST_CASE("forged scales and symbols are refused, and exceptions without need") {
  const std::vector<float> levels = mirrored_levels(std::vector<float>{0x1p-20F, 1}, true);
  LevelLayout layout = scaled_layout(levels, 0);
  for (const float scale : {-0.0F, -1.0F, 0x1p-107F, 0x1.000002p126F, std::numeric_limits<float>::infinity(), NAN}) {
    Bytes bytes;
    put(bytes, scale);
    ByteReader stored(bytes, "stored");
    CHECK_THROWS_AS(LevelDecoder::restore(layout, stored, inputs_of(1)), Error);
  }
  layout.bucket = 2;
  const VectorTensor tensor({0, 0, 1, 0.3F});
  const LevelEncoder encoder(tensor, layout, inputs_of(1), choice_for(levels));
  std::vector<float> out(4);
  const auto decode = [&](const Code& code) { encoder.decoder().decode(code, {0, 4}, out); };
  const auto fresh = [&] {
    Code code;
    encoder.encode({0, 4}, code, {});
    return code;
  };
  CHECK_NOTHROW(decode(fresh()));
  Code code = fresh();
  code.streams[0].symbols[1] = 3;
  CHECK_THROWS_WITH(decode(code), Catch::Contains("bucket 0 of the chunk") && Catch::Contains("scale is 0"));
  code = fresh();
  code.params[7] = std::byte{0xFF};
  CHECK_THROWS_WITH(decode(code), Catch::Contains("bucket 1 of the chunk") && Catch::Contains("scale"));
  code = fresh();
  code.exceptions = {{1, 0x3F800000}};
  CHECK_THROWS_WITH(decode(code), Catch::Contains("without need"));
  code = fresh();
  code.exceptions = {{2, 0x7F800000}};
  CHECK_THROWS_WITH(decode(code), Catch::Contains("has a symbol"));
  code = fresh();
  code.exceptions = {{1, 0x7F800000}};
  CHECK_NOTHROW(decode(code));
}

TEST_CASE("contexts are for tables that are their own mirror image") {
  const Inputs inputs = inputs_of(1);
  LevelLayout layout;
  layout.levels = {-1, 0, 1};
  CHECK(LevelDecoder(layout, inputs).streams({}, {0, 5})[0].classes == kernels::kDitherClasses);
  layout.levels = {-1, 0, 0.5F};
  CHECK(LevelDecoder(layout, inputs).streams({}, {0, 5})[0].classes == 0);
}
