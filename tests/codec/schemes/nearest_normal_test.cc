// The nearest centroids and their scales: the examples by hand, the identities, the figures for a normal law, and the
// bounds that hold for any values below a random rotation.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/nearest_normal.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/kernels/hadamard.h"
#include "codec/levels/normal.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

struct Coded {
  std::vector<uint16_t> symbols;
  float scale;
  std::vector<float> decoded;
};

Coded coded(const std::vector<float>& y, unsigned bits, NormalScale kind) {
  Coded out;
  out.symbols.resize(y.size());
  out.scale = fit_bucket(y, bits, kind, out.symbols);
  const auto centroids = normal::centroids(bits);
  for (const uint16_t symbol : out.symbols) {
    const size_t half = centroids.size();
    out.decoded.push_back(symbol >= half ? out.scale * centroids[symbol - half]
                                         : -(out.scale * centroids[half - 1 - symbol]));
  }
  return out;
}

// Normal values by adding up twelve uniform ones would have no tail: Box and Muller's.
std::vector<float> gaussian(size_t n, uint32_t what) {
  std::vector<uint32_t> words(2 * n);
  kernels::scalar::philox_words({{what, 8}, 0, 0}, 0, 2 * n, words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const double u = (words[2 * i] + 0.5) * 0x1p-32, v = (words[2 * i + 1] + 0.5) * 0x1p-32;
    x[i] = static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v));
  }
  return x;
}

double product(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

double squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  return sum;
}

// The expectation of x' and of ||x' - x||^2 / ||x||^2 over all 16 diagonals of signs, one bit a value.
struct Enumerated {
  std::array<double, 4> mean = {};
  double nmse = 0;
};

Enumerated enumerate(const std::vector<float>& x, NormalScale kind) {
  Enumerated out;
  for (unsigned signs = 0; signs < 16; ++signs) {
    std::vector<float> y = x;
    for (unsigned i = 0; i < 4; ++i) y[i] = (signs >> i & 1) != 0 ? -x[i] : x[i];
    kernels::hadamard(y.data(), 2);
    std::vector<float> back = coded(y, 1, kind).decoded;
    kernels::hadamard(back.data(), 2);
    for (unsigned i = 0; i < 4; ++i) {
      if ((signs >> i & 1) != 0) back[i] = -back[i];
      out.mean[i] += double{back[i]} / 16;
    }
    out.nmse += squared_distance(back, x) / product(x, x) / 16;
  }
  return out;
}

}  // namespace

TEST_CASE("one bit of (1, 2, 3, 4) rotated by ++++") {
  std::vector<float> y = {1, 2, 3, 4};
  kernels::hadamard(y.data(), 2);
  const Coded unbiased = coded(y, 1, NormalScale::unbiased);
  CHECK(unbiased.symbols == std::vector<uint16_t>{1, 0, 0, 1});  // the 0 counts as positive
  CHECK(double{unbiased.decoded[0]} == Approx(3.75).epsilon(1e-7));
  std::vector<float> back = unbiased.decoded;
  kernels::hadamard(back.data(), 2);
  CHECK(double{back[3]} == Approx(7.5).epsilon(1e-7));
  CHECK((back[0] == 0 && back[1] == 0 && back[2] == 0));
  CHECK(squared_distance(back, {1, 2, 3, 4}) == Approx(26.25).epsilon(1e-6));
  CHECK(double{coded(y, 1, NormalScale::least_squares).decoded[0]} == Approx(2).epsilon(1e-7));
}

TEST_CASE("one bit of (1, 2, 3, 4) rotated by +-++") {
  std::vector<float> y = {1, -2, 3, 4};
  kernels::hadamard(y.data(), 2);
  CHECK(y == std::vector<float>{3, 1, -4, 2});
  const Coded unbiased = coded(y, 1, NormalScale::unbiased);
  CHECK(unbiased.symbols == std::vector<uint16_t>{1, 1, 0, 1});
  std::vector<float> back = unbiased.decoded;
  kernels::hadamard(back.data(), 2);
  back[1] = -back[1];
  for (const float value : back) CHECK(double{value} == Approx(3).epsilon(1e-6));
}

TEST_CASE("all sixteen rotations of four values: unbiased only as the values are") {
  const Enumerated slope = enumerate({1, 2, 3, 4}, NormalScale::unbiased);
  constexpr double kMean[] = {0.5625, 2.4375, 2.4375, 4.3125};
  for (size_t i = 0; i < 4; ++i) CHECK(slope.mean[i] == Approx(kMean[i]).epsilon(1e-6));
  CHECK(slope.nmse == Approx(0.5375).epsilon(1e-6));
  CHECK(enumerate({1, 0, 0, 0}, NormalScale::unbiased).nmse < 1e-12);
  const Enumerated pair = enumerate({1, 1, 0, 0}, NormalScale::unbiased);
  CHECK(pair.mean[0] == Approx(1).epsilon(1e-6));
  CHECK(pair.mean[2] == Approx(0).margin(1e-6));
  CHECK(pair.nmse == Approx(1).epsilon(1e-6));
  CHECK(enumerate({1, 1, 0, 0}, NormalScale::least_squares).nmse == Approx(0.5).epsilon(1e-6));  // the promised bound
}

TEST_CASE("a value halfway between two centroids becomes the one nearer to 0, and 0 the smallest positive one") {
  const auto centroids = normal::centroids(2);
  const auto middle = static_cast<float>((double{centroids[0]} + double{centroids[1]}) / 2);
  const std::vector<float> y = {
      middle, std::nextafter(middle, 9.0F), -middle, -std::nextafter(middle, 9.0F), 0.0F, -0.0F, 0x1p-149F, -0x1p-149F};
  std::vector<uint16_t> symbols(y.size());
  nearest_centroids(y, 1, 2, symbols);
  CHECK(symbols == std::vector<uint16_t>{2, 3, 1, 0, 2, 2, 2, 1});
}

TEST_CASE("each symbol is that of the nearest centroid") {
  const std::vector<float> y = gaussian(5000, 1);
  for (unsigned bits = 1; bits <= normal::kMaxBits; ++bits) {
    const auto centroids = normal::centroids(bits);
    std::vector<uint16_t> symbols(y.size());
    nearest_centroids(y, 0.7, bits, symbols);
    for (size_t i = 0; i < y.size(); ++i) {
      const double magnitude = std::fabs(double{y[i]}) / 0.7;
      const bool negative = y[i] < 0;
      const size_t index = negative ? centroids.size() - 1 - symbols[i] : symbols[i] - centroids.size();
      REQUIRE(index < centroids.size());
      for (const float other : centroids) {
        REQUIRE(std::fabs(double{centroids[index]} - magnitude) <= std::fabs(double{other} - magnitude) + 1e-6);
      }
    }
  }
}

TEST_CASE("the unbiased scale keeps the inner product, and the error is what the identity says") {
  for (unsigned bits = 1; bits <= normal::kMaxBits; ++bits) {
    for (const size_t n : {1, 2, 15, 16, 17, 1000, 4096}) {
      const std::vector<float> y = gaussian(n, 10 + bits);
      const double norm2 = product(y, y);
      const Coded unbiased = coded(y, bits, NormalScale::unbiased), least = coded(y, bits, NormalScale::least_squares);
      INFO(bits << " bits, " << n << " values");
      CHECK(unbiased.symbols == least.symbols);
      CHECK(product(unbiased.decoded, y) == Approx(norm2).epsilon(3e-7));
      CHECK(squared_distance(unbiased.decoded, y) ==
            Approx(product(unbiased.decoded, unbiased.decoded) - norm2).margin(1e-6 * norm2));
      const double qy = product(least.decoded, y), qq = product(least.decoded, least.decoded);
      CHECK(squared_distance(least.decoded, y) == Approx(norm2 - qy * qy / qq).margin(1e-6 * norm2));
      CHECK(qy == Approx(qq).epsilon(3e-7));  // the error is orthogonal to what is decoded
    }
  }
}

TEST_CASE("the errors for a long Gaussian vector are those of the normal law") {
  constexpr double kLeast[] = {0.363380, 0.117482, 0.034548, 0.009501};
  const std::vector<float> y = gaussian(1 << 18, 3);
  const double norm2 = product(y, y);
  for (unsigned bits = 1; bits <= normal::kMaxBits; ++bits) {
    const double d = kLeast[bits - 1];
    INFO(bits << " bits");
    // Of 2^18 values the relative deviation is about 0.3 %.
    CHECK(squared_distance(coded(y, bits, NormalScale::least_squares).decoded, y) / norm2 == Approx(d).epsilon(0.015));
    CHECK(squared_distance(coded(y, bits, NormalScale::unbiased).decoded, y) / norm2 ==
          Approx(d / (1 - d)).epsilon(0.015));
  }
}

TEST_CASE("polynomials of even powers above the distance to the nearest centroid bound the expected error") {
  // Coefficients of 1, z^2, z^4, z^6, z^8; those from z^4 on are not negative, and so may take the moments of the
  // normal law for those of a sum of signs.
  constexpr std::array<std::array<double, 5>, 3> kAbove = {{{0.205060, 0.077258, 0, 0, 0.000230},
                                                            {0.060130, 0.019518, 0.004291, 0, 0.000040},
                                                            {0.016540, 0.005412, 0.000961, 0.000076, 0.000015}}};
  constexpr std::array<double, 5> kMoments = {1, 1, 3, 15, 105};
  constexpr double kBounds[] = {0.3065, 0.0968, 0.0276};
  constexpr double kPromised[] = {0.69, 0.90, 0.97};
  for (unsigned bits = 2; bits <= normal::kMaxBits; ++bits) {
    const auto& above = kAbove[bits - 2];
    const auto centroids = normal::centroids(bits);
    double bound = 0;
    for (size_t k = 0; k < above.size(); ++k) bound += above[k] * kMoments[k];
    CHECK(bound <= kBounds[bits - 2]);
    CHECK(1 - bound >= kPromised[bits - 2]);
    std::vector<double> points;
    for (double z = 0; z <= 12; z += 1e-4) points.push_back(z);
    for (size_t j = 1; j < centroids.size(); ++j)
      points.push_back((double{centroids[j - 1]} + double{centroids[j]}) / 2);
    // The distance has its kinks halfway between centroids. Elsewhere the second derivative of the difference is below
    // 100 up to z = 4, so between points 1e-4 apart it is lower by less than 2e-7 than at one of them; then it rises.
    double least_margin = 1;
    for (const double z : points) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const float c : centroids) nearest = std::min(nearest, (z - double{c}) * (z - double{c}));
      const double z2 = z * z;
      const double value = above[0] + z2 * (above[1] + z2 * (above[2] + z2 * (above[3] + z2 * above[4])));
      least_margin = std::min(least_margin, value - nearest);
    }
    INFO(bits << " bits: least margin " << least_margin);
    CHECK(least_margin > 1e-5);
    CHECK(above[4] * std::pow(12.0, 8) > 12 * 12);
  }
}

TEST_CASE("zeros and values too small for a scale have a scale of 0 and the symbol of 0") {
  for (const float value : {0.0F, -0.0F, 1e-45F, -0x1p-130F}) {
    const std::vector<float> y(33, value);
    for (const NormalScale kind : {NormalScale::unbiased, NormalScale::least_squares}) {
      const Coded out = coded(y, 3, kind);
      CHECK(out.scale == 0);
      CHECK(!std::signbit(out.scale));
      CHECK(out.symbols == std::vector<uint16_t>(33, 4));
    }
  }
}

TEST_CASE("a scale or a symbol that no encoder of centroids writes is refused") {
  const NearestNormalDecoder decoder({2, 4});
  Code code;
  code.streams.resize(1);
  code.streams[0].alphabet = 4;
  code.streams[0].symbols = {2, 2, 2, 2, 0, 1};
  std::vector<float> out(6);
  const auto decode = [&](float first, float second) {
    code.params.clear();
    put(code.params, first);
    put(code.params, second);
    decoder.decode(code, {0, 6}, out);
  };
  decode(0, 1);
  CHECK(out[0] == 0);
  CHECK(out[4] == -1.5104176F);
  for (const float bad : {-0.0F, -1.0F, 0x1p-127F, 0x1.000002p126F, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    CHECK_THROWS_AS(decode(bad, 1), Error);
  }
  CHECK_THROWS_WITH(decode(0, -1), Catch::Contains("block 1 of the chunk"));
  CHECK_THROWS_WITH(decode(1, 0), Catch::Contains("block 1 of the chunk"));  // symbols that are not that of 0
  code.exceptions.push_back({0, 0x7F800000});
  CHECK_THROWS_AS(decode(0, 1), Error);
}
