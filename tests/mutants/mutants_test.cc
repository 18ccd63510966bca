// The honest quantizers are honest, and the defects of the broken ones are there.
// SPDX-License-Identifier: Apache-2.0
#include "mutants/mutants.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/edges.h"
#include "codec/support.h"
#include "mutants/half_dither.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kChunk = 4096;

RoundTrip message(const Scheme& scheme, const Tensor& tensor, const Params& params, uint64_t seed, uint64_t worker,
                  uint32_t ordinal = 0) {
  return round_trip(tensor, {&scheme, params}, {&scheme, params}, {seed, worker, {}}, kChunk, Nonfinite::error,
                    ordinal);
}

// <e, x> / ||x||^2, e the mean error of `count` messages.
double slope(const Scheme& scheme, const VectorTensor& tensor, const Params& params, uint64_t count) {
  double along = 0, norm2 = 0;
  for (const float x : tensor.values()) norm2 += static_cast<double>(x) * static_cast<double>(x);
  for (uint64_t worker = 0; worker < count; ++worker) {
    const RoundTrip trip = message(scheme, tensor, params, 5, worker);
    for (size_t i = 0; i < trip.decoded.size(); ++i) {
      const auto x = static_cast<double>(tensor.values()[i]);
      along += (static_cast<double>(trip.decoded[i]) - x) * x;
    }
  }
  return along / norm2 / static_cast<double>(count);
}

}  // namespace

TEST_CASE("the subtractive quantizer without a mutation is dqsg, bit for bit") {
  const Quantizer scheme("whole", Dither::subtractive);
  for (const std::string text : {"dqsg:levels=5", "dqsg:levels=257", "dqsg:levels=5,bucket=100"}) {
    const SchemeChoice dqsg = parse_scheme(text);
    for (const std::vector<float>& values : edge_tensors()) {
      const VectorTensor tensor(values);
      const RoundTrip ours =
          round_trip(tensor, {&scheme, dqsg.params}, {&scheme, dqsg.params}, {1, 2, 3}, kChunk, Nonfinite::keep, 4);
      const RoundTrip theirs = round_trip(tensor, text, {1, 2, 3}, kChunk, Nonfinite::keep, 4);
      INFO(text << " on " << values.size() << " values");
      CHECK(ours.stored == theirs.stored);
      CHECK(same_bits(ours.decoded, theirs.decoded));
    }
  }
}

TEST_CASE("half-dithered: each value becomes a neighbouring multiple of the step, up as often as it should") {
  const VectorTensor tensor({2.0F, 0.25F, -0.25F, 1.9F, -1.5F, 0.0F, -2.0F});
  const std::vector<double> below = {2, 0, -1, 1, -2, 0, -2}, fraction = {0, 0.25, 0.75, 0.9, 0.5, 0, 0};
  const uint64_t messages = 20000;
  std::vector<double> ups(below.size(), 0.0);
  for (uint64_t worker = 0; worker < messages; ++worker) {
    const RoundTrip trip = message(half_dither_scheme(), tensor, quantizer_params(5), 3, worker);
    for (size_t i = 0; i < below.size(); ++i) {
      const double up = static_cast<double>(trip.decoded[i]) - below[i];
      REQUIRE((up == 0 || up == 1));
      ups[i] += up;
    }
  }
  for (size_t i = 0; i < below.size(); ++i) {
    const double f = fraction[i];
    INFO("element " << i);
    CHECK(std::fabs(ups[i] / messages - f) <= 5 * std::sqrt(f * (1 - f) / messages));
  }
}

TEST_CASE("broken quantizers decode what their encoder says") {
  const VectorTensor tensor(varied(5000));
  for (const Mutant& mutant : mutants(5)) {
    for (const Dither dither : {Dither::half, Dither::subtractive}) {
      if (!(dither == Dither::half ? mutant.half : mutant.subtractive)) continue;
      const Quantizer broken(mutant.name, dither, mutant.mutation), whole("whole", dither);
      for (const int64_t bucket : {0, 100}) {
        INFO(mutant.name << (dither == Dither::half ? ", half" : ", subtractive") << ", bucket " << bucket);
        const RoundTrip trip = message(broken, tensor, quantizer_params(5, bucket), 5, 1);
        CHECK(same_bits(trip.decoded, trip.promised));
        CHECK_FALSE(same_bits(trip.decoded, message(whole, tensor, quantizer_params(5, bucket), 5, 1).decoded));
      }
    }
  }
}

TEST_CASE("two stages that share a draw double what is below half a step") {
  std::vector<float> x(2000, 0.2F);
  x[0] = 2;
  const Mutant two_stages = [] {
    for (const Mutant& mutant : mutants(5)) {
      if (mutant.name == "two stages, one draw") return mutant;
    }
    throw std::logic_error("no such mutant");
  }();
  const Quantizer broken(two_stages.name, Dither::half, two_stages.mutation);
  double mean = 0;
  for (uint64_t worker = 0; worker < 50; ++worker) {
    const RoundTrip trip = message(broken, VectorTensor(x), quantizer_params(5), 5, worker);
    for (size_t i = 1; i < x.size(); ++i) mean += static_cast<double>(trip.decoded[i]) / 50 / 1999;
  }
  CHECK(mean == Approx(0.4).margin(0.01));
}

TEST_CASE("the shortest of eight encodings is shorter along x") {
  std::vector<float> x = varied(98);
  const VectorTensor tensor(x);
  const Quantizer broken("shortest of 8", Dither::half, shortest_of(8));
  const uint64_t messages = 2000;
  CHECK(slope(broken, tensor, quantizer_params(5), messages) < -0.05);
  CHECK(std::fabs(slope(half_dither_scheme(), tensor, quantizer_params(5), messages)) < 0.02);
}

TEST_CASE("an ignored ordinal, worker, lane or period repeats the draws, and nothing else does") {
  const VectorTensor zeros([] {
    std::vector<float> x(8192, 0.0F);  // what is decoded of a zero is the dither itself
    x[0] = x[4096] = 1;
    return x;
  }());
  const auto decoded = [&](const Mutation& mutation, uint64_t worker, uint32_t ordinal) {
    const Quantizer scheme("dither", Dither::subtractive, mutation);
    return message(scheme, zeros, quantizer_params(3), 5, worker, ordinal).decoded;
  };
  const std::vector<float> honest = decoded({}, 1, 0);
  CHECK_FALSE(same_bits(honest, decoded({}, 1, 1)));
  CHECK_FALSE(same_bits(honest, decoded({}, 2, 0)));
  CHECK_FALSE(same_bits(std::span(honest).first(4096), std::span(honest).last(4096)));
  CHECK(honest[5] != honest[4]);
  CHECK(same_bits(decoded(ordinal_ignored(), 1, 0), decoded(ordinal_ignored(), 1, 1)));
  for (const Mutant& mutant : mutants(5)) {
    const std::vector<float> got = decoded(mutant.mutation, 1, 0);
    if (mutant.name == "worker ignored") CHECK(same_bits(got, decoded(mutant.mutation, 2, 0)));
    if (mutant.name == "dither reused") CHECK(same_bits(std::span(got).first(4096), std::span(got).last(4096)));
    if (mutant.name == "one word for four") CHECK((got[5] == got[4] && got[6] == got[4] && got[8] != got[4]));
  }
}
