// Rotations of chunks: how they are cut into blocks and filled up, that they come back, and what `rotate`, `drive`,
// `eden` and `rotq` make of them.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/rotation.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/edges.h"
#include "codec/kernels/hadamard.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

const Random kRandom({5, {}, {}}, 0);
const kernels::Draws kSigns = kRandom.draws(Purpose::rotation, kFirstStage);

Inputs inputs_of(uint64_t chunk_len) { return {kRandom, kFirstStage, chunk_len}; }

double squares(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += double{value} * double{value};
  return sum;
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  return sum;
}

// Mean of ||x' - x||^2 / ||x||^2 over messages.
double mean_nmse(const std::vector<float>& x, std::string_view text, uint64_t messages, uint64_t chunk_len = 4096) {
  const VectorTensor tensor(x);
  double sum = 0;
  for (uint64_t worker = 0; worker < messages; ++worker) {
    sum += squared_distance(round_trip(tensor, text, {9, worker, {}}, chunk_len).decoded, x) / squares(x);
  }
  return sum / static_cast<double>(messages);
}

}  // namespace

TEST_CASE("a chunk is cut into blocks, and what is left over filled up to a power of two") {
  const BlockPlan plan(64, inputs_of(1000));
  CHECK(plan.padded(0) == 0);
  CHECK(plan.padded(1) == 1);
  CHECK(plan.padded(3) == 4);
  CHECK(plan.padded(64) == 64);
  CHECK(plan.padded(65) == 65);
  CHECK(plan.padded(97) == 128);
  CHECK(plan.padded(1000) == 15 * 64 + 64);
  CHECK(plan.rotated({2000, 70}).first == 2 * 1024);
  CHECK(plan.rotated({2000, 70}).count == 64 + 8);
  CHECK(plan.below(inputs_of(1000)).chunk_len == 1024);
  CHECK(plan.below(inputs_of(1000)).stage == kFirstStage + 1);
  Inputs inputs = inputs_of(1000);
  CHECK(plan.below(inputs).size == 0);
  inputs.size = 2070;
  CHECK(plan.below(inputs).size == 2 * 1024 + 64 + 8);
  inputs.size = 2000;
  CHECK(plan.below(inputs).size == 2 * 1024);
}

TEST_CASE("chunks of uneven size, some of them empty, follow each other rotated, too") {
  const std::vector<uint64_t> ends = {0, 5, 5, 70, 71, 71};
  Inputs inputs = inputs_of(1 << 12);
  inputs.ends = ends;
  const BlockPlan plan(64, inputs);
  inputs.size = 71;
  const Inputs below = plan.below(inputs);
  CHECK(below.size == 74);
  const std::vector<uint64_t> rotated(below.ends.begin(), below.ends.end());
  CHECK(rotated == std::vector<uint64_t>{0, 8, 8, 8 + 65, 8 + 65 + 1, 8 + 65 + 1});
  const std::vector<float> x = varied(71);
  const VectorTensor tensor(x);
  const Rotation rotation = {BlockPlan(64, inputs), kSigns};
  const Rotated lazy(tensor, rotation, inputs, false);
  REQUIRE(lazy.size() == 74);
  uint64_t first = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const Range chunk{first, ends[i] - first};
    const Range place = plan.rotated(chunk);
    CHECK(place.count == rotated[i] - (i == 0 ? 0 : rotated[i - 1]));
    if (place.count > 0) CHECK(place.first == rotated[i - 1]);
    std::vector<float> room(place.count);
    const auto y = lazy.read(place, room);
    CHECK(squares(y) == Approx(squares(std::span(x).subspan(chunk.first, chunk.count))).epsilon(1e-6));
    first = ends[i];
  }
}

TEST_CASE("any stretch of a rotated tensor reads as it does in whole chunks") {
  const std::vector<float> x = varied(3003);
  const VectorTensor tensor(x);
  const Inputs inputs = inputs_of(1000);
  for (const uint64_t block : {2, 64, 1024}) {
    const Rotation rotation = {BlockPlan(block, inputs), kSigns};
    const Rotated lazy(tensor, rotation, inputs, false);
    const Range last = rotation.plan.rotated({3000, 3});
    REQUIRE(lazy.size() == last.first + last.count);
    std::vector<float> all(lazy.size()), room(lazy.size());
    for (uint64_t first = 0; first < 3003; first += 1000) {
      const Range place = rotation.plan.rotated({first, std::min<uint64_t>(1000, 3003 - first)});
      const auto y = lazy.read(place, room);
      std::copy(y.begin(), y.end(), all.begin() + static_cast<ptrdiff_t>(place.first));
    }
    for (const Range range : {Range{0, lazy.size()}, Range{1, 1}, Range{63, 500}, Range{900, 1500},
                              Range{last.first, last.count}, Range{last.first - 1, 2}}) {
      std::vector<float> part(range.count);
      INFO("blocks of " << block << ", " << range.count << " from " << range.first);
      CHECK(same_bits(lazy.read(range, part), std::span(all).subspan(range.first, range.count)));
    }
  }
}

TEST_CASE("a rotation keeps norms and comes back, within the bound of its rounding") {
  for (const size_t n : {1, 2, 3, 5, 64, 100, 4096, 10001}) {
    const std::vector<float> x = varied(n);
    const Inputs inputs = inputs_of(1 << 14);
    const Rotation rotation = {BlockPlan(4096, inputs), kSigns};
    std::vector<float> values(rotation.plan.padded(n), 99.0F);
    std::copy(x.begin(), x.end(), values.begin());
    rotate_blocks(values, n, rotation, 0);
    CHECK(squares(values) == Approx(squares(x)).epsilon(2e-6).margin(1e-30));
    rotate_blocks_back(values, n, rotation, 0);
    const double norm = std::sqrt(squares(x));
    CHECK(std::sqrt(squared_distance(std::span(values).first(n), x)) <= 2.001 * kernels::hadamard_error(12, norm));
  }
}

TEST_CASE("what is decoded of a rotated block is finite, whatever its values are") {
  const Inputs inputs = inputs_of(1 << 18);
  const Rotation rotation = {BlockPlan(1 << 18, inputs), kSigns};
  std::vector<float> values(1 << 18, std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < values.size(); i += 3) values[i] = -values[i];
  rotate_blocks_back(values, values.size(), rotation, 0);
  for (const float value : values) REQUIRE(std::isfinite(value));
}

TEST_CASE("values beyond 2^96 are set aside by a rotation, and come back exactly") {
  std::vector<float> x = varied(300);
  x[5] = 0x1.000002p96F;
  x[299] = -0x1p126F;
  x[7] = 0x1p96F;
  const RoundTrip trip = round_trip(VectorTensor(x), "rotate:block=64/dqsg:levels=255", {1, {}, {}});
  REQUIRE(trip.chunks[0].exceptions.size() == 2);
  CHECK(trip.decoded[5] == x[5]);
  CHECK(trip.decoded[299] == x[299]);
}

TEST_CASE("a rotation shared by the workers of a step is the same for them, and another in the next step") {
  const VectorTensor tensor(varied(4096));
  const auto symbols = [&](std::string_view text, const MessageId& id) {
    return round_trip(tensor, text, id).chunks[0].inner->streams[0].symbols;
  };
  CHECK(symbols("drive:shared=yes", {1, 0, 7}) == symbols("drive:shared=yes", {1, 3, 7}));
  CHECK(symbols("drive:shared=yes", {1, 0, 7}) != symbols("drive:shared=yes", {1, 0, 8}));
  CHECK(symbols("drive", {1, 0, 7}) != symbols("drive", {1, 3, 7}));
}

TEST_CASE("a file of a rotation with an exception without need, or one too large below, is refused") {
  const VectorTensor tensor(varied(100));
  const SchemeChoice choice = parse_scheme("rotate:block=64/dither:step=0.1");
  const auto encoder = choice.prepare(tensor, inputs_of(4096));
  Code code;
  std::vector<float> out(100);
  encoder->encode({0, 100}, code, out);
  code.exceptions = {{3, std::bit_cast<uint32_t>(1.0F)}};
  CHECK_THROWS_AS(encoder->decoder().decode(code, {0, 100}, out), Error);
  code.exceptions = {{3, 0x7FC00000}};
  encoder->decoder().decode(code, {0, 100}, out);
  code.inner->exceptions = {{3, 0x7FC00000}};
  code.inner->streams[0].symbols[3] = static_cast<uint16_t>(code.inner->streams[0].alphabet / 2);
  CHECK_THROWS_AS(encoder->decoder().decode(code, {0, 100}, out), Error);
}

TEST_CASE("blocks are powers of two") {
  CHECK_THROWS_WITH(parse_scheme("drive:block=100"), Catch::Contains("power of two"));
  CHECK_THROWS_AS(parse_scheme("rotate:block=64"), Error);  // over nothing
}

TEST_CASE("one large value among zeros costs a rotation no more than any other block") {
  std::vector<float> spike(4096, 0.0F);
  spike[77] = 3;
  // All rotated values are of one size then, which both quantizers hit.
  CHECK(mean_nmse(spike, "drive", 4) < 1e-9);
  CHECK(mean_nmse(spike, "rotq:bits=2", 4) < 1e-9);
  // Two of them are the worst for one bit: y is 0 or twice as large.
  spike[78] = 3;
  CHECK(mean_nmse(spike, "drive", 4) == Approx(1).epsilon(0.1));
  CHECK(mean_nmse(spike, "drive:scale=ls", 4) == Approx(0.5).epsilon(0.1));
}

TEST_CASE("the expected error of the least squares scale is at most what is promised, for any values") {
  std::vector<std::vector<float>> blocks;
  for (const size_t nonzero : {1, 2, 3, 5, 9, 40}) {
    blocks.emplace_back(256, 0.0F);
    for (size_t i = 0; i < nonzero; ++i) blocks.back()[5 * i] = 1;
  }
  blocks.push_back(varied(256));
  constexpr double kDelta[] = {0.5, 0.69, 0.90, 0.97};
  for (unsigned bits = 1; bits <= 4; ++bits) {
    const std::string text = "eden:scale=ls,block=256,bits=" + std::to_string(bits);
    for (const auto& x : blocks) {
      const VectorTensor tensor(x);
      const double promised = parse_scheme(text).prepare(tensor, inputs_of(4096))->promise().delta.value();
      CHECK(promised == Approx(kDelta[bits - 1]).margin(1e-4));
      // 64 messages, each within [0, 1]: a mean of 0.1 above the bound has a probability below e^-1.2 for each of 28.
      CHECK(mean_nmse(x, text, 64) <= 1 - promised + 0.05);
    }
  }
}

TEST_CASE("the errors of long Gaussian vectors are those of the literature") {
  std::vector<float> x(1 << 17);
  std::vector<uint32_t> words(2 * x.size());
  kernels::philox_words({{1, 8}, 0, 0}, 0, words.size(), words.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double u = (words[2 * i] + 0.5) * 0x1p-32, v = (words[2 * i + 1] + 0.5) * 0x1p-32;
    x[i] = static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v));
  }
  constexpr double kUnbiased[] = {0.5708, 0.1331, 0.0358, 0.0096}, kLeast[] = {0.3634, 0.1175, 0.03455, 0.0095};
  constexpr double kRounded[] = {0.74, 0.112, 0.0229};
  for (unsigned bits = 1; bits <= 4; ++bits) {
    const std::string n = std::to_string(bits);
    INFO(bits << " bits");
    CHECK(mean_nmse(x, "eden:bits=" + n, 2) == Approx(kUnbiased[bits - 1]).epsilon(0.02));
    CHECK(mean_nmse(x, "eden:scale=ls,bits=" + n, 2) == Approx(kLeast[bits - 1]).epsilon(0.02));
    if (bits > 1) CHECK(mean_nmse(x, "rotq:bits=" + n, 2) == Approx(kRounded[bits - 2]).epsilon(0.03));
  }
  CHECK(mean_nmse(x, "drive", 2) == Approx(kUnbiased[0]).epsilon(0.02));
  CHECK(mean_nmse(x, "rotate/dither:nmse=0.1", 2) == Approx(0.1).epsilon(0.02));
}

TEST_CASE("rotate and rotq are unbiased, drive nearly so") {
  const std::vector<float> x = {1, 2, 3, 4, -0.5F, 0, 0.25F, -7};
  const VectorTensor tensor(x);
  for (const char* text : {"rotq:bits=2,block=8", "rotate:block=4/dqsg:levels=3", "rotate:block=8/dither:nmse=0.5"}) {
    constexpr uint64_t kMessages = 20000;
    std::vector<double> mean(x.size());
    double error2 = 0;
    for (uint64_t worker = 0; worker < kMessages; ++worker) {
      const RoundTrip trip = round_trip(tensor, text, {3, worker, {}});
      for (size_t i = 0; i < x.size(); ++i) mean[i] += double{trip.decoded[i]} / kMessages;
      error2 += squared_distance(trip.decoded, x) / kMessages;
    }
    // Five deviations of each of eight means; an element's variance is at most all of the error.
    for (size_t i = 0; i < x.size(); ++i) {
      INFO(text << ", element " << i);
      CHECK(mean[i] == Approx(double{x[i]}).margin(5 * std::sqrt(error2 / kMessages)));
    }
  }
}
