// The random rotation: its definition against the matrix, its rounding against the bound, every instruction set against
// the definition.
// SPDX-License-Identifier: Apache-2.0
#include "codec/kernels/hadamard.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

using namespace gradcodec;
using kernels::Draws;

namespace {

constexpr Draws kDraws = {{0x243F6A88, 0x85A308D3}, 7, 0x00040000};

struct WithTarget {
  explicit WithTarget(const std::string& name) { REQUIRE(kernels::use_target(name)); }
  ~WithTarget() { kernels::use_target(""); }
};

// Of sizes from 2^-14 to 1, both signs, zeros of both among them.
std::vector<float> floats(size_t n, uint32_t what) {
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words({{what, 4}, 0, 0}, 0, n, words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const auto part = static_cast<float>(static_cast<int32_t>(words[i]) >> 8) * 0x1p-23F;
    x[i] = words[i] % 16 == 15 ? std::copysign(0.0F, part) : std::ldexp(part, -static_cast<int>(words[i] % 16));
  }
  return x;
}

std::vector<double> exact_transform(const std::vector<float>& x) {
  std::vector<double> y(x.begin(), x.end());
  for (size_t h = 1; h < y.size(); h *= 2) {
    for (size_t i = 0; i < y.size(); ++i) {
      if ((i & h) != 0) continue;
      const double a = y[i], b = y[i + h];
      y[i] = a + b;
      y[i + h] = a - b;
    }
  }
  for (double& value : y) value /= std::sqrt(static_cast<double>(y.size()));
  return y;
}

template <typename Values>
double norm_of(const Values& values) {
  double sum = 0;
  for (const auto value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

double distance(const std::vector<float>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("the Hadamard transform is that of Sylvester's matrix") {
  std::vector<float> x = {1, 2, 3, 4};
  kernels::scalar::hadamard(x.data(), 2);
  CHECK(x == std::vector<float>{5, -1, -2, 0});
  for (unsigned column = 0; column < 8; ++column) {  // by its entries
    std::vector<float> unit(8, 0.0F);
    unit[column] = 8;
    kernels::scalar::hadamard(unit.data(), 3);
    for (unsigned row = 0; row < 8; ++row) {
      const float scaled = 8 * kernels::hadamard_scale(3);
      CHECK(unit[row] == (std::popcount(row & column) % 2 == 0 ? scaled : -scaled));
    }
  }
  std::vector<float> one = {-3.5F};
  kernels::scalar::hadamard(one.data(), 0);
  CHECK(one[0] == -3.5F);
}

TEST_CASE("the scale of the Hadamard transform is 2^(-log2/2) rounded to float32") {
  for (unsigned log2 = 0; log2 <= kernels::kMaxHadamardLog2; ++log2) {
    INFO(log2);
    CHECK(kernels::hadamard_scale(log2) == static_cast<float>(std::pow(2.0, -static_cast<double>(log2) / 2)));
  }
}

TEST_CASE("the rounding error of the Hadamard transform is below its bound, and not far below") {
  for (unsigned log2 = 0; log2 <= kernels::kMaxHadamardLog2; ++log2) {
    std::vector<float> x = floats(size_t{1} << log2, log2);
    const double norm = norm_of(x);
    const std::vector<double> exact = exact_transform(x);
    std::vector<float> y = x;
    kernels::hadamard(y.data(), log2);
    const double error = distance(y, exact), bound = kernels::hadamard_error(log2, norm);
    INFO("2^" << log2 << ": error " << error / norm / 0x1p-24 << " u, bound " << bound / norm / 0x1p-24 << " u");
    CHECK(error <= bound);
    if (log2 >= 8) CHECK(error > 0.05 * bound);
    kernels::hadamard(y.data(), log2);  // back
    const std::vector<double> wide(x.begin(), x.end());
    CHECK(distance(y, wide) <= bound + kernels::hadamard_error(log2, norm + bound));
  }
}

TEST_CASE("the rounding error of the Hadamard transform is bounded for the smallest and the largest values") {
  for (const unsigned log2 : {3U, 12U, 13U, 18U}) {
    for (const float value : {0x1p-149F, 0x1.8p-140F, 0x1p109F}) {
      std::vector<float> x(size_t{1} << log2);
      for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? -value : value;
      std::vector<float> y = x;
      kernels::hadamard(y.data(), log2);
      INFO("2^" << log2 << " of " << value);
      CHECK(distance(y, exact_transform(x)) <= kernels::hadamard_error(log2, norm_of(x)));
      std::vector<float> same(x.size(), value);
      kernels::hadamard(same.data(), log2);
      CHECK(std::isfinite(same[0]));
    }
  }
}

TEST_CASE("the Hadamard transform is that of the definition on every target") {
  for (unsigned log2 = 0; log2 <= kernels::kMaxHadamardLog2; ++log2) {
    const size_t n = size_t{1} << log2;
    std::vector<float> x = floats(n, 100 + log2);
    x[n / 2] = 0x1p109F;
    x[n - 1] = 0x1p-149F;
    std::vector<float> want = x;
    kernels::scalar::hadamard(want.data(), log2);
    for (const auto& target : kernels::available_targets()) {
      const WithTarget with(target);
      for (const size_t offset : {0, 1, 3}) {  // at any alignment, and not beyond its ends
        std::vector<float> room(n + 8, 7.0F);
        std::copy(x.begin(), x.end(), room.begin() + static_cast<ptrdiff_t>(offset));
        kernels::hadamard(room.data() + offset, log2);
        INFO(target << ", 2^" << log2);
        CHECK(std::memcmp(room.data() + offset, want.data(), n * sizeof(float)) == 0);
        for (size_t i = 0; i < room.size(); ++i) {
          if (i < offset || i >= offset + n) REQUIRE(room[i] == 7.0F);
        }
      }
    }
  }
}

TEST_CASE("signs are flipped by the bits of the words, the lowest first") {
  uint32_t word;
  kernels::scalar::philox_words(kDraws, 5, 1, &word);
  std::vector<float> x(32, 1.5F), out(32);
  kernels::scalar::flip_signs(kDraws, 5 * 32, 32, x.data(), out.data());
  for (unsigned i = 0; i < 32; ++i) CHECK(out[i] == ((word >> i & 1) != 0 ? -1.5F : 1.5F));
}

TEST_CASE("flipping signs is that of the definition on every target") {
  constexpr uint64_t kCarry = uint64_t{1} << 39;  // here the word's index / 4 passes 2^32
  for (const uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{31}, uint64_t{77}, kCarry - 70, uint64_t{1} << 62}) {
    for (const size_t n : {0, 1, 5, 31, 32, 33, 100, 4096, 10001}) {
      const std::vector<float> x = floats(n, 3);
      std::vector<float> want(n);
      kernels::scalar::flip_signs(kDraws, first, n, x.data(), want.data());
      for (const auto& target : kernels::available_targets()) {
        const WithTarget with(target);
        std::vector<float> got(n), in_place = x;
        kernels::flip_signs(kDraws, first, n, x.data(), got.data());
        kernels::flip_signs(kDraws, first, n, in_place.data(), in_place.data());
        INFO(target << ", " << n << " from " << first);
        CHECK(same_bits(got, want));
        CHECK(same_bits(in_place, want));
      }
    }
  }
}
