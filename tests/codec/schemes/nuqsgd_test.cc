// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/nuqsgd.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/support.h"

using namespace gradcodec;

namespace {

Promise promise_of(const Tensor& tensor, std::string_view text) {
  const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  const SchemeChoice choice = parse_scheme(text);
  return choice.prepare(tensor, inputs)->promise();
}

}  // namespace

TEST_CASE("nuqsgd: powers of two of the norm, worked by hand") {
  // (1, -2, 2) has norm 3: r = 1/3, 2/3, 2/3 go to 1/4 or 1/2, and 1/2 or 1.
  const VectorTensor three({1, -2, 2});
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const RoundTrip trip = round_trip(three, "nuqsgd:s=3", {seed, {}, {}});
    CHECK(trip.stored.empty());
    CHECK(ByteReader(trip.chunks[0].params, "scale").get<float>() == 3);
    CHECK((trip.decoded[0] == 0.75F || trip.decoded[0] == 1.5F));
    CHECK((trip.decoded[1] == -1.5F || trip.decoded[1] == -3.0F));
    CHECK((trip.decoded[2] == 1.5F || trip.decoded[2] == 3.0F));
    CHECK(trip.chunks[0].streams[0].alphabet == 9);
  }
  CHECK(*promise_of(three, "nuqsgd:s=3").variance == Approx(1.125).epsilon(1e-12));  // ||v||^2 / 8
  // (3, -4, 0, 0): r = 0.6 and 0.8 between 1/2 and 1, the zeros stay.
  const VectorTensor four({3, -4, 0, 0});
  CHECK(*promise_of(four, "nuqsgd:s=2").variance == Approx(2.5).epsilon(1e-12));
  const RoundTrip trip = round_trip(four, "nuqsgd:s=2,bucket=0", {1, {}, {}});
  CHECK(trip.stored.size() == 4);
  CHECK(trip.chunks[0].params.empty());
  CHECK((trip.decoded[2] == 0 && trip.decoded[3] == 0));
}

TEST_CASE("nuqsgd: each value has the probability of its place between its neighbours") {
  constexpr int kCount = 4000;
  std::vector<float> x(kCount, 0.0F);
  for (size_t i = 0; i < x.size(); i += 2) x[i] = 0.6F, x[i + 1] = -0.8F;
  const RoundTrip trip = round_trip(VectorTensor(x), "nuqsgd:s=2,bucket=2", {17, {}, {}});
  int ups = 0, downs = 0;
  for (size_t i = 0; i < x.size(); i += 2) ups += trip.decoded[i] > 0.75F, downs += trip.decoded[i + 1] < -0.75F;
  // Binomial: 2000 of 0.2 and of 0.6, deviations 17.9 and 21.9; five of them.
  CHECK(std::abs(ups - 400) < 90);
  CHECK(std::abs(downs - 1200) < 110);
}

TEST_CASE("nuqsgd: omega is a bound of the exact variance, and not promised for scales that were raised") {
  std::vector<float> x(3000);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(1.0F, -static_cast<int>(i % 13)) * (i % 2 == 0 ? 1.0F : -0.7F);
  for (const std::string_view text : {"nuqsgd:s=1", "nuqsgd:s=4", "nuqsgd:s=8,bucket=0", "nuqsgd:s=6,bucket=8192"}) {
    const Promise promise = promise_of(VectorTensor(x), text);
    double squares = 0;
    for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
    CHECK(*promise.variance <= *promise.omega * squares);
    CHECK(promise.delta.has_value() == (*promise.omega < 1));
  }
  CHECK(promise_of(VectorTensor(x), "nuqsgd:s=8,bucket=0").delta.has_value());
  CHECK(!promise_of(VectorTensor({1e-45F, 1.0F}), "nuqsgd:s=4,bucket=1").omega.has_value());
}
