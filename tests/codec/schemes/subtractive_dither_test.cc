// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/subtractive_dither.h"

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
    DitherLayout layout;
    layout.max_level = 1;
    layout.stores_level = stores_level;
    return SubtractiveDecoder::restore(layout, reader, inputs);
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

TEST_CASE("unbiased, with variance step^2 / 12") {
  // 4,000 seeds; the sum of n uniform errors is within 5 of its deviations but for 6 in 10 million runs of each check.
  const VectorTensor tensor({0.7F, -0.2F, 0.031F, 0.0F, -1.0F, 0.5F, 1e-6F, -0.999F});
  constexpr int kSeeds = 4000;
  std::vector<double> sum(tensor.size());
  double squares = 0;
  double step = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RoundTrip trip = round_trip(tensor, "dqsg:levels=5", {seed, {}, {}});
    step = static_cast<double>(stored_step(trip));
    for (size_t i = 0; i < sum.size(); ++i) {
      const double error = static_cast<double>(trip.decoded[i]) - static_cast<double>(tensor.values()[i]);
      CHECK(std::fabs(error) <= step / 2 * (1 + 1e-6));
      sum[i] += error;
      squares += error * error;
    }
  }
  const double deviation = step / std::sqrt(12.0);
  for (const double total : sum) CHECK(std::fabs(total) < 5 * deviation * std::sqrt(kSeeds));
  const double n = kSeeds * static_cast<double>(sum.size());
  // Var of a squared uniform error: step^4 / 180.
  CHECK(std::fabs(squares - n * step * step / 12) < 5 * step * step * std::sqrt(n / 180));
}
