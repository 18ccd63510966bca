// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/grid_quantizer.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/support.h"

using namespace gradcodec;

namespace {

float stored_step(const RoundTrip& trip) {
  float step;
  std::memcpy(&step, trip.stored.data(), sizeof(step));
  return step;
}

uint64_t stored_level(const RoundTrip& trip) { return ByteReader(ByteView(trip.stored).subspan(4), "M").get_varint(); }

}  // namespace

TEST_CASE("a step for a range is the smallest float that reaches it") {
  for (const uint32_t m : {1U, 2U, 3U, 127U, 128U, 32767U}) {
    for (const float max : {1.0F, 0.1F, 3.4e37F, 0x1p126F, 1e-30F, 0x1.fffffep-100F}) {
      const float step = step_for_range(max, m);
      const float below = std::bit_cast<float>(std::bit_cast<uint32_t>(step) - 1);
      INFO(m << " levels to " << max);
      CHECK(static_cast<double>(m) * step >= max);
      CHECK(static_cast<double>(m) * below < max);
    }
  }
  CHECK(step_for_range(0, 5) == 0);
  CHECK(step_for_range(1e-45F, 1) == 0x1p-126F);  // no subnormal step
}

TEST_CASE("the level for a magnitude is the smallest that reaches it") {
  CHECK(level_for(1.0F, 0.25F) == 4);
  CHECK(level_for(1.0000001F, 0.25F) == 5);
  CHECK(level_for(0.24F, 0.25F) == 1);
  CHECK(level_for(0, 0.25F) == 0);
  CHECK(level_for(0, 0) == 0);
  CHECK(level_for(1e6F, 1.0F) == kMaxLevel);
}

TEST_CASE("dqsg: 2M+1 levels over the largest magnitude") {
  const RoundTrip trip = round_trip(VectorTensor({0.5F, -2.0F, 0.0F, 1.0F}), "dqsg:levels=5", {1, {}, {}});
  CHECK(stored_step(trip) == 1.0F);  // M = 2
  CHECK(trip.stored.size() == 4);
  CHECK(trip.chunks[0].streams[0].alphabet == 5);
}

TEST_CASE("dqsg: values are clipped to standard deviations first") {
  std::vector<float> x(100, 0.0F);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1.0F : -1.0F;
  x[0] = 100.0F;
  // mean 0.99, variance (99 + 10000) / 100 - 0.99^2
  const auto clip = static_cast<float>(2.0 * std::sqrt(100.99 - 0.99 * 0.99));
  const RoundTrip trip = round_trip(VectorTensor(x), "dqsg:levels=3,clip=2", {1, {}, {}});
  CHECK(stored_step(trip) == Approx(clip).epsilon(1e-6));
  CHECK(std::fabs(trip.decoded[0]) <= 1.5F * clip);
  // A constant has no deviation, so nothing is clipped.
  const RoundTrip constant =
      round_trip(VectorTensor(std::vector<float>(10, 3.0F)), "dqsg:levels=3,clip=2", {1, {}, {}});
  CHECK(stored_step(constant) == 3.0F);
}

TEST_CASE("dither: the step is rms sqrt(12 nmse), the alphabet as large as it needs to be") {
  const VectorTensor tensor({3.0F, -4.0F, 0.0F, 0.0F});  // rms 2.5
  const RoundTrip trip = round_trip(tensor, "dither:nmse=0.03", {1, {}, {}});
  CHECK(stored_step(trip) == static_cast<float>(2.5 * 0.6));
  CHECK(stored_level(trip) == 3);  // 4 / 1.5
  CHECK(stored_step(round_trip(tensor, "dither:step=0.1", {1, {}, {}})) == 0.1F);
  CHECK(stored_step(round_trip(VectorTensor({0.0F}), "dither:step=0.1", {1, {}, {}})) == 0.0F);
}

TEST_CASE("dither: what lies beyond 32767 steps is kept exactly") {
  std::vector<float> x(2000000, 0.0F);
  x[1234567] = -5.0F;
  const VectorTensor tensor(x);
  const RoundTrip trip = round_trip(tensor, "dither:nmse=1e-8", {1, {}, {}}, uint64_t{1} << 18);
  CHECK(stored_level(trip) == 0);  // of what is left, all zero
  CHECK(trip.decoded[1234567] == -5.0F);
  CHECK(trip.chunks[1234567 >> 18].exceptions.size() == 1);
  CHECK(trip.chunks[0].exceptions.empty());
}

TEST_CASE("buckets restart in each chunk and store their steps there; the last may be short") {
  std::vector<float> x(10);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  x[4] = x[5] = 0;
  const RoundTrip trip = round_trip(VectorTensor(x), "dqsg:levels=3,bucket=4", {1, {}, {}}, 6);
  CHECK(trip.stored.empty());
  REQUIRE(trip.chunks.size() == 2);
  const auto steps = [](const Bytes& params) {
    std::vector<float> out(params.size() / 4);
    std::memcpy(out.data(), params.data(), params.size());
    return out;
  };
  CHECK(steps(trip.chunks[0].params) == std::vector<float>{4, 0});
  CHECK(steps(trip.chunks[1].params) == std::vector<float>{10});
  CHECK(std::bit_cast<uint32_t>(trip.decoded[4]) == 0);  // a step of 0 decodes to +0
}

TEST_CASE("what a decoder must refuse") {
  const Random random({1, {}, {}}, 0);
  const Inputs inputs{random, kFirstStage, 4096};
  const auto restore = [&](float step, std::optional<uint64_t> level, bool stores_level) {
    Bytes stored;
    put(stored, step);
    if (level) put_varint(stored, *level);
    ByteReader reader(stored, "stored");
    GridLayout layout;
    layout.max_level = 1;
    layout.stores_level = stores_level;
    return GridDecoder::restore(layout, reader, inputs);
  };
  CHECK(restore(1.0F, {}, false));
  CHECK(restore(0.0F, 0, true));
  for (const float step : {-1.0F, -0.0F, 1e-40F, 0x1p127F, std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()}) {
    INFO(step);
    CHECK_THROWS_AS(restore(step, {}, false), Error);
  }
  CHECK_THROWS_AS(restore(1.0F, 32768, true), Error);
  CHECK_THROWS_AS(restore(0.0F, 1, true), Error);

  Code code;
  code.streams = {{3, {1, 2}, {}}};
  std::vector<float> out(2);
  CHECK_THROWS_AS(restore(0.0F, {}, false)->decode(code, {0, 2}, out), Error);  // a symbol that is not 0
}

TEST_CASE("of a bucket that is refused the number is told") {
  GridLayout layout;
  layout.max_level = 1;
  layout.bucket = 2;
  const GridDecoder decoder(layout, {Random({1, {}, {}}, 0), kFirstStage, 4096});
  Code code;
  code.streams = {{3, {1, 2, 1, 1, 2, 1}, {}}};
  std::vector<float> out(6);
  const auto decode = [&](float second, float third) {
    code.params.clear();
    for (const float step : {1.0F, second, third}) put(code.params, step);
    decoder.decode(code, {0, 6}, out);
  };
  CHECK_NOTHROW(decode(0, 1));
  CHECK_THROWS_WITH(decode(-1, 1), Catch::Contains("bucket 1 of the chunk"));
  CHECK_THROWS_WITH(decode(0, 0), Catch::Contains("bucket 2 of the chunk"));
}

namespace {

// Over many seeds: how far the mean errors of the elements, and the mean squared error, are from the promise (0, and
// step^2 / 12), in standard deviations of the uniform law. Each of n + 1 numbers is beyond 5 in fewer than one of a
// million runs of an honest scheme. `decoded(seed)` gives the values, step_of(i) the step of element i.
template <typename Decode, typename StepOf>
std::pair<double, double> deviations(const std::vector<float>& x, int seeds, Decode decoded, StepOf step_of) {
  std::vector<double> sum(x.size());
  double squares = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    const std::vector<float> values = decoded(static_cast<uint64_t>(seed));
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = (static_cast<double>(values[i]) - static_cast<double>(x[i])) / step_of(i);
      sum[i] += error;
      squares += error * error;
    }
  }
  double worst = 0;
  for (const double total : sum) worst = std::max(worst, std::fabs(total) / std::sqrt(seeds / 12.0));
  const double n = static_cast<double>(seeds) * static_cast<double>(x.size());
  return {worst, std::fabs(squares - n / 12) / std::sqrt(n / 180)};  // the variance of a squared uniform is 1 / 180
}

const std::vector<float> kValues = {0.7F, -0.2F, 0.031F, 0.0F, -1.0F, 0.5F, 1e-6F, -0.999F};

}  // namespace

TEST_CASE("unbiased, with variance step^2 / 12: every alphabet, bucket and rule") {
  for (const char* scheme : {"dqsg:levels=3", "dqsg:levels=5", "dqsg:levels=301", "dqsg:levels=5,bucket=3",
                             "dither:nmse=0.1", "dither:nmse=0.00001", "dither:nmse=0.2,bucket=5", "dither:step=0.3"}) {
    INFO(scheme);
    const VectorTensor tensor(kValues);
    const RoundTrip one = round_trip(tensor, scheme, {0, {}, {}});
    const size_t run = one.chunks[0].params.empty() ? kValues.size() : std::string_view(scheme).back() - '0';
    const Bytes& steps = one.chunks[0].params.empty() ? one.stored : one.chunks[0].params;
    const auto step_of = [&](size_t i) {
      float step;
      std::memcpy(&step, steps.data() + i / run * sizeof(step), sizeof(step));
      return static_cast<double>(step);
    };
    const auto decoded = [&](uint64_t seed) { return round_trip(tensor, scheme, {seed, {}, {}}).decoded; };
    const auto [mean, square] = deviations(kValues, 4000, decoded, step_of);
    CHECK(mean < 5);
    CHECK(square < 5);
  }
}

TEST_CASE("a broken quantizer is seen to be biased or too noisy") {
  const double step = 0.5;
  const auto values = [&](auto value_of) {
    return [&, value_of](uint64_t seed) {
      std::vector<uint32_t> words(kValues.size());
      kernels::scalar::philox_words({{static_cast<uint32_t>(seed), 0}, 0, 0}, 0, words.size(), words.data());
      std::vector<float> out;
      for (size_t i = 0; i < kValues.size(); ++i) {
        const double v = (static_cast<double>(words[i] >> 9) + 0.5) * 0x1p-23;
        out.push_back(static_cast<float>(value_of(static_cast<double>(kValues[i]) / step, v) * step));
      }
      return out;
    };
  };
  const auto step_of = [&](size_t) { return step; };
  const auto honest = [](double y, double v) { return std::floor(y + v) - (v - 0.5); };
  const auto right = deviations(kValues, 4000, values(honest), step_of);
  CHECK((right.first < 5 && right.second < 5));
  const auto clamped = [&](double y, double v) { return std::clamp(std::floor(y + v), -1.0, 1.0) - (v - 0.5); };
  CHECK(deviations(kValues, 4000, values(clamped), step_of).first > 5);  // one level too few
  const auto nearest = [](double y, double) { return std::floor(y + 0.5); };
  CHECK(deviations(kValues, 4000, values(nearest), step_of).first > 5);
  const auto half_dithered = [](double y, double v) { return std::floor(y + v); };
  CHECK(deviations(kValues, 4000, values(half_dithered), step_of).second > 5);
  const auto low = [](double y, double v) { return std::floor(y + v * 0.9) - (v - 0.5); };
  CHECK(deviations(kValues, 4000, values(low), step_of).first > 5);
}

namespace {

// 64 rows of 64 values, rows half as large as the one before but for every eighth, which is 0.
VectorTensor uneven() {
  std::vector<float> x;
  for (size_t i = 0; i < 64 * 64; ++i) {
    const size_t row = i / 64;
    const float value = static_cast<float>((i * 2654435761u >> 8) % 1000) / 500.0F - 1.0F;
    x.push_back(row % 8 == 7 ? 0.0F : std::ldexp(value, -static_cast<int>(row % 8)));
  }
  return {x, 64};
}

}  // namespace

TEST_CASE("dither, steps=class: errors are uniform on the step of their row, and sum to what was asked") {
  const VectorTensor tensor = uneven();
  Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 1000};
  const auto encoder = parse_scheme("dither:nmse=0.1,steps=class").prepare(tensor, inputs);
  const Promise promise = encoder->promise();
  CHECK(promise.omega.value() == Approx(0.1).epsilon(1e-6));
  CHECK(promise.variance.value() == Approx(0.1 * squares_of(tensor.values())).epsilon(1e-6));
  double energy = 0;
  constexpr int kTrials = 20;
  for (int trial = 0; trial < kTrials; ++trial) {
    inputs.random = Random({static_cast<uint64_t>(trial), {}, {}}, 0);
    const OneChunk chunk = one_chunk(tensor, "dither:nmse=0.1,steps=class", inputs);
    double before = 1e30;
    for (size_t i = 0; i < chunk.decoded.size(); ++i) {
      const double error = static_cast<double>(chunk.decoded[i]) - tensor.values()[i];
      if (i / 64 % 8 == 7) {
        REQUIRE(std::bit_cast<uint32_t>(chunk.decoded[i]) == 0);
        REQUIRE(chunk.laws[i] == Law::at(0));
        continue;
      }
      REQUIRE(chunk.laws[i].kind == Law::uniform);
      REQUIRE(std::fabs(error) <= chunk.laws[i].hi * (1 + 1e-5) + 1e-7);
      if (i / 64 < 7 && i % 64 == 0) CHECK(chunk.laws[i].hi <= before);
      if (i < 7 * 64) before = chunk.laws[i].hi;
      energy += error * error;
    }
    CHECK(chunk.laws[0].hi > 2 * chunk.laws[6 * 64].hi);  // rows of 1 and 2^-6: about a third of the octaves
  }
  // 20 times 3584 errors: the sum of squares is within 2 % of its mean but with probability below 10^-5.
  CHECK(energy / kTrials == Approx(promise.variance.value()).epsilon(0.02));
}

TEST_CASE("dither, steps=class: chunks, exceptions and tensors without rows") {
  std::vector<float> x = uneven().values();
  x[100] = std::numeric_limits<float>::infinity();
  x[7 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();  // in a row of zeros
  const VectorTensor tensor(x, 64);
  for (const uint64_t chunk_len : {4096, 1000, 50}) {
    const RoundTrip trip = round_trip(tensor, "dither:nmse=0.01,steps=class", {1, {}, {}}, chunk_len, Nonfinite::keep);
    CHECK(same_bits(trip.decoded, trip.promised));
    CHECK(std::isinf(trip.decoded[100]));
    CHECK(std::isnan(trip.decoded[7 * 64 + 3]));
  }
  const VectorTensor flat(uneven().values());
  const RoundTrip of_one = round_trip(flat, "dither:nmse=0.01", {1, {}, {}});
  const RoundTrip trip = round_trip(flat, "dither:nmse=0.01,steps=class", {1, {}, {}});
  CHECK(same_bits(trip.decoded, trip.promised));
  CHECK(stored_step(trip) >= stored_step(of_one));  // one class: the same step, a sixteenth of an octave at a time
  const RoundTrip zero =
      round_trip(VectorTensor(std::vector<float>(4096), 64), "dither:nmse=0.1,steps=class", {1, {}, {}});
  CHECK(zero.stored.size() == 5);
  CHECK(zero.decoded == std::vector<float>(4096));
}

// 1e3 is far from what its row and column are steps for: D0 is near 0.01, since the errors that are allowed go to them.
TEST_CASE("dither, steps=class: a value beyond 32767 steps of its own is kept exactly") {
  std::vector<float> x(512 * 512, 1e-9F);
  const size_t at = 100 * 512 + 200;
  x[at] = 1e3F;
  const VectorTensor tensor(x, 512);
  const RoundTrip trip = round_trip(tensor, "dither:nmse=1e-8,steps=class", {1, {}, {}}, 1 << 16);
  CHECK(same_bits(trip.decoded, trip.promised));
  const float step = stored_step(trip);
  INFO("step " << step);
  REQUIRE(1e3F > 32767 * step);
  CHECK(trip.decoded[at] == 1e3F);
  for (size_t i = 0; i < trip.chunks.size(); ++i) {
    REQUIRE(trip.chunks[i].exceptions.size() == (i == at >> 16 ? 1 : 0));
  }
  CHECK(trip.chunks[0].exceptions.front().index == at);
  double energy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = static_cast<double>(trip.decoded[i]) - x[i];
    energy += error * error;
  }
  CHECK(energy > 0);
  CHECK(energy < 1e-8 * 1e6);
}

TEST_CASE("scales for a coder change neither symbols nor values") {
  const VectorTensor tensor = uneven();
  for (const char* scheme : {"dqsg:levels=3", "dither:nmse=0.1", "qsgd:s=64,bucket=0,norm=max", "terngrad",
                             "uniform:bits=4", "dqsg:levels=5,bucket=100", "dqsg:levels=5,clip=1"}) {
    INFO(scheme);
    Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
    const OneChunk without = one_chunk(tensor, scheme, inputs);
    inputs.scales = true;
    const OneChunk with = one_chunk(tensor, scheme, inputs);
    CHECK(with.code.streams[0].symbols == without.code.streams[0].symbols);
    CHECK(same_bits(with.decoded, without.decoded));
    const auto encoder = parse_scheme(scheme).prepare(tensor, inputs);
    const StreamShape shape = encoder->decoder().streams(with.code, {0, 4096})[0];
    const std::string text = scheme;
    CHECK(shape.scales == (text.find("uniform") == std::string::npos && text.find("bucket=1") == std::string::npos));
    if (!shape.scales) continue;
    std::vector<uint8_t> scales(4096);
    encoder->decoder().scales(with.code, 0, {0, 4096}, scales);
    CHECK(scales[0] > scales[6 * 64]);
    CHECK(scales[7 * 64] == 77);
  }
}
