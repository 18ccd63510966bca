// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

float stored_scale(const RoundTrip& trip) {
  REQUIRE(trip.stored.size() == 4);
  float scale;
  std::memcpy(&scale, trip.stored.data(), sizeof(scale));
  return scale;
}

Bytes numbers(std::initializer_list<uint64_t> values) {
  Bytes out;
  for (const uint64_t value : values) put_varint(out, value);
  return out;
}

}  // namespace

TEST_CASE("lattice: the scale gives the variance of the nmse, or of the step") {
  const VectorTensor tensor({3.0F, -4.0F, 0.0F, 0.0F});  // rms 2.5
  const auto scale = [&](const char* text) {
    return static_cast<double>(stored_scale(round_trip(tensor, text, {1, {}, {}})));
  };
  CHECK(scale("lattice:kind=a2,nmse=0.03") == Approx(2.5 * std::sqrt(0.03 * 72 / 5)).epsilon(1e-7));
  CHECK(scale("lattice:kind=d4,nmse=0.03") == Approx(2.5 * std::sqrt(0.03 * 120 / 13)).epsilon(1e-7));
  CHECK(scale("lattice:nmse=0.03") == Approx(2.5 * std::sqrt(0.03 * 12960 / 929)).epsilon(1e-7));
  CHECK(scale("lattice:kind=a2,step=0.1") == Approx(0.10954451).epsilon(1e-7));
  CHECK(scale("lattice:kind=d4,step=0.1") == Approx(0.08770580).epsilon(1e-7));
  CHECK(scale("lattice:step=0.1") == Approx(0.107821165).epsilon(1e-7));
  CHECK(stored_scale(round_trip(VectorTensor({0.0F, 0.0F}), "lattice:step=0.1", {1, {}, {}})) == 0.0F);
}

TEST_CASE("lattice: what is far beyond the scale is kept exactly, its vector's others are not") {
  std::vector<float> x(40, 0.01F);
  x[11] = 300.0F;
  const RoundTrip trip = round_trip(VectorTensor(x), "lattice:step=0.01", {1, {}, {}});
  REQUIRE(trip.chunks[0].exceptions.size() == 1);
  CHECK(trip.decoded[11] == 300.0F);
  CHECK(trip.decoded[12] != 0.01F);
  CHECK(trip.decoded[12] == Approx(0.01).margin(0.0108));
}

TEST_CASE("lattice: vectors of several values near the limit, and beyond it") {
  for (const char* text : {"lattice:kind=a2,step=1", "lattice:kind=d4,step=1", "lattice:step=1"}) {
    const float scale = stored_scale(round_trip(VectorTensor({1.0F}), text, {1, {}, {}}));
    for (const float reach : {8192.0F, 9274.0F, 11585.0F, 11586.0F, 16383.0F, 16384.0F}) {
      INFO(text << " at " << reach << " scales");
      std::vector<float> x(64);
      for (size_t i = 0; i < x.size(); ++i) x[i] = (i % 3 == 0 ? -scale : scale) * (i % 8 < 6 ? reach : reach / 64);
      const RoundTrip trip = round_trip(VectorTensor(x), text, {1, {}, {}});
      CHECK(same_bits(trip.decoded, trip.promised));
      CHECK(trip.chunks[0].exceptions.empty());
      for (size_t i = 0; i < x.size(); ++i) CHECK(std::fabs(trip.decoded[i] - x[i]) <= 1.001F * scale);
    }
    const RoundTrip beyond = round_trip(VectorTensor(std::vector<float>(64, 16385 * scale)), text, {1, {}, {}});
    CHECK(beyond.chunks[0].exceptions.size() == 64);
  }
  const std::vector<float> ones(64, 1.0F);  // weights of a norm's layer
  CHECK(round_trip(VectorTensor(ones), "lattice:step=1e-4", {1, {}, {}}).decoded[5] == Approx(1).margin(1.1e-4));
}

TEST_CASE("lattice: one symbol a vector where points are few") {
  const VectorTensor tensor(varied(4096));
  const RoundTrip low = round_trip(tensor, "lattice:nmse=1", {1, {}, {}});
  REQUIRE(low.chunks[0].streams.size() == 1);
  CHECK(low.chunks[0].streams[0].symbols.size() == 512);
  const RoundTrip high = round_trip(tensor, "lattice:nmse=1e-8", {1, {}, {}});
  REQUIRE(high.chunks[0].streams.size() == 3);
  CHECK(high.chunks[0].streams[0].symbols.size() == 512);
  CHECK(high.chunks[0].streams[1].symbols.size() == 512 * 7);
}

TEST_CASE("lattice: what a decoder must refuse") {
  const Random random({1, {}, {}}, 0);
  const Inputs inputs{random, kFirstStage, 4096};
  const auto restore = [&](float scale) {
    Bytes stored;
    put(stored, scale);
    ByteReader reader(stored, "stored");
    return parse_stored_scheme("lattice:kind=d4").restore(reader, inputs);
  };
  CHECK(restore(1.0F));
  CHECK(restore(0.0F));
  for (const float scale : {-1.0F, -0.0F, 1e-40F, 0x1p127F, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    INFO(scale);
    CHECK_THROWS_AS(restore(scale), Error);
  }
  const auto take = [&](float scale, const Bytes& params) {
    ByteReader reader(params, "params");
    Code code;
    restore(scale)->take_params({0, 8}, reader, code);
    CHECK(code.params == params);
  };
  take(1.0F, numbers({0, 7}));
  take(1.0F, numbers({1, 7, 3, 3}));
  take(0.0F, numbers({0, 0}));
  CHECK_THROWS_AS(take(0.0F, numbers({0, 1})), Error);
  CHECK_THROWS_AS(take(0.0F, numbers({2, 0, 0, 0})), Error);
  CHECK_THROWS_AS(take(1.0F, numbers({3, 0, 1, 1})), Error);
  CHECK_THROWS_AS(take(1.0F, numbers({1, 7, 3})), Error);

  Code code;
  code.params = numbers({0, 1});
  code.streams = {{3, {1, 1}, {}}};
  code.exceptions = {{5, 0x3F800000}};  // 1.0 is an exception without need
  std::vector<float> out(8);
  CHECK_THROWS_AS(restore(1.0F)->decode(code, {0, 8}, out), Error);
  code.exceptions = {{5, 0x7F800000}};
  restore(1.0F)->decode(code, {0, 8}, out);
  CHECK(out[5] == std::numeric_limits<float>::infinity());
}

TEST_CASE("lattice: escapes that no encoder writes end, too") {
  Bytes stored;
  put(stored, 1.0F);
  ByteReader reader(stored, "stored");
  const auto decoder = parse_stored_scheme("lattice").restore(reader, {Random({1, {}, {}}, 0), kFirstStage, 4096});
  const auto decode = [&](uint16_t coset, int32_t first, int32_t other, std::vector<float>& out) {
    const auto symbol = [](int32_t q) { return static_cast<uint16_t>(q + 32767); };
    Code code;
    code.params = numbers({1, 1, 32767, 32767});
    code.streams = {{3, {2, 1}, {}}, {2, {coset}, {}}, {65535, std::vector<uint16_t>(7, symbol(other)), {}}};
    code.streams.push_back({65535, {symbol(first)}, {}});
    decoder->decode(code, {0, 16}, out);
  };
  std::vector<float> out(16);
  for (const int32_t q : {9276, -9276, 16384, 32767, -32767}) {
    for (const uint16_t coset : {uint16_t{0}, uint16_t{1}}) {
      INFO(q << ", coset " << coset);
      decode(coset, q / 2, q, out);
      for (size_t i = 0; i < 8; ++i) CHECK(std::fabs(out[i]) == Approx(std::abs(q)).margin(4));
      for (size_t i = 8; i < 16; ++i) CHECK(std::fabs(out[i]) <= 1);
    }
  }
  decode(0, 16384, 0, out);  // a coordinate of 2^16, doubled
  CHECK_THROWS_WITH(decode(0, 1, 0, out), Catch::Contains("point in the table"));
}

// Uneven chunks, as below a sparsifier, and chunks of no vector's length: the same tensor has the same law anyway.
TEST_CASE("lattice: chunks of any length") {
  const VectorTensor tensor(varied(1000));
  for (const uint64_t chunk : {uint64_t{1}, uint64_t{3}, uint64_t{7}, uint64_t{13}, uint64_t{1000}}) {
    for (const char* text : {"lattice:kind=a2,nmse=0.1", "lattice:kind=d4,nmse=0.1", "lattice:nmse=0.1"}) {
      double squares = 0, error = 0;
      for (uint64_t seed = 0; seed < 30; ++seed) {
        const RoundTrip trip = round_trip(tensor, text, {seed, {}, {}}, chunk);
        CHECK(same_bits(trip.decoded, trip.promised));
        for (size_t i = 0; i < 1000; ++i) {
          const auto x = static_cast<double>(tensor.values()[i]);
          squares += x * x;
          error += std::pow(static_cast<double>(trip.decoded[i]) - x, 2);
        }
      }
      INFO(text << " in chunks of " << chunk);
      CHECK(error / squares == Approx(0.1).epsilon(0.05));  // six standard deviations and more
    }
  }
}
