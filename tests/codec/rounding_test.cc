// The rounding primitive over all 2^23 values of v, and the bound of its error.
// SPDX-License-Identifier: Apache-2.0
#include "codec/kernels/rounding.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "codec/kernels/kernels.h"
#include "mutants/mutants.h"

using namespace gradcodec;
using namespace gradcodec::kernels;

namespace {

constexpr uint32_t kDraws = 1u << 23;

using Rounding = int32_t (*)(float x, float v, float step, float max_level);

struct Counts {
  uint32_t down = 0, up = 0, other = 0;
};

// How often |q| is k and k + 1.
Counts count(Rounding rounding, float x, float step, float max_level, int32_t k) {
  Counts counts;
  for (uint32_t j = 0; j < kDraws; ++j) {
    const int32_t q = rounding(x, draw_v(j << 9), step, max_level), magnitude = x < 0 ? -q : q;
    (magnitude == k ? counts.down : magnitude == k + 1 ? counts.up : counts.other) += 1;
  }
  return counts;
}

// The probability of k + 1 is `fraction` to 2^-24, and the same under a minus.
void check_probability(Rounding rounding, float x, float step, float max_level, double k, double fraction) {
  INFO("x " << x << ", step " << step);
  const auto plus = count(rounding, x, step, max_level, static_cast<int32_t>(k));
  const auto minus = count(rounding, -x, step, max_level, static_cast<int32_t>(k));
  CHECK(plus.other == 0);
  CHECK(minus.other == 0);
  CHECK(plus.up == minus.up);
  CHECK(std::fabs(plus.up / double{kDraws} - fraction) <= 0x1p-24);
  if (fraction == 0) CHECK(plus.up == 0);
}

std::vector<float> random_floats(size_t n) {
  std::vector<uint32_t> words(n);
  scalar::philox_words({{4, 5}, 6, 7}, 0, n, words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = (static_cast<float>(words[i] >> 8) - 0x1p23f) * 0x1p-23f;
  return x;
}

// How many of the points k step, exact in float32, are not kept for the smallest or the largest v.
uint32_t moved_from_lattice(Rounding rounding, int32_t max_level) {
  const auto levels = static_cast<uint32_t>(max_level);
  uint32_t moved = 0;
  for (uint32_t mantissa = 1; mantissa < (1u << 23) / (levels + 1); mantissa += 2) {
    const auto step = static_cast<float>(mantissa);
    for (int32_t k = 1; k <= max_level; k += 3) {
      const float x = static_cast<float>(k) * step;  // at most 23 bits
      for (const float v : {0x1p-24f, 1.0f - 0x1p-24f}) {
        const auto limit = static_cast<float>(max_level);
        moved += rounding(x, v, step, limit) != k || rounding(-x, v, step, limit) != -k;
      }
    }
  }
  return moved;
}

}  // namespace

TEST_CASE("v, 1 - v and u are odd multiples of 2^-24") {
  bool all = true;
  for (uint32_t j = 0; j < kDraws; ++j) {
    const float v = draw_v(j << 9 | 0x1FF);
    const double exact = (2.0 * j + 1) * 0x1p-24;
    all = all && double{v} == exact && double{1.0f - v} == 1 - exact && double{v - 0.5f} == exact - 0.5;
  }
  CHECK(all);
}

TEST_CASE("few levels: rounding up has the right probability, over all draws") {
  for (const float y : {0.0f, 0x1p-149f, 0x1p-30f, 0x1p-24f, 0x1.000002p-24f, 0x1p-23f, 0.1f, 0.5f, 0x1.fffffep-1f,
                        1.0f, 1.25f, 2.3f, 6.99f, 126.7f}) {
    check_probability(round_float32, y, 1.0f, 127, std::floor(y), y - std::floor(y));
  }
  for (const float x : {0.1f, 0.77f}) {
    const float y = x / 0.3f;
    check_probability(round_float32, x, 0.3f, 127, std::floor(y), y - std::floor(y));
  }
}

TEST_CASE("many levels: rounding up has the probability of the exact quotient, over all draws") {
  for (const float x : {0.0f, 0x1p-149f, 0x1p-24f, 0.1f, 0.5f, 0.75f, 1.0f, 1234.567f, 9000.3f, 0x1.fffffep+12f}) {
    for (const float step : {0.3f, 1.0f}) {
      const double k = std::floor(double{x} / step);
      const double rest = double{x} - k * step;  // exact
      check_probability(round_float64, x, step, 32767, k, rest / step);
    }
  }
}

TEST_CASE("the last level is never passed") {
  for (const Rounding rounding : {&round_float32, &round_float64}) {
    for (const float x : {3.0f, 3.7f, 1e20f, 0x1p126f}) {
      const auto counts = count(rounding, x, 1.0f, 3, 3);
      CHECK(counts.down == kDraws);
    }
  }
}

TEST_CASE("what is on the lattice stays; a reciprocal would move it") {
  CHECK(moved_from_lattice(round_float32, 127) == 0);
  CHECK(moved_from_lattice(round_float64, 127) == 0);
  CHECK(moved_from_lattice(round_float64, 32767) == 0);
  CHECK(moved_from_lattice(round_by_reciprocal, 127) > 1000);
  CHECK(moved_from_lattice(round_by_reciprocal, 32767) > 1000);
}

TEST_CASE("the error is at most half a step and what float32 adds") {
  const auto values = random_floats(20000);
  for (const uint32_t levels : {3, 5, 255, 257, 65535}) {
    const uint32_t max_level = levels / 2;
    for (const float scale : {1.0f, 0.3f, 0x1p-100f, 0x1.23456p90f}) {
      std::vector<float> x, decoded(values.size());
      for (const float value : values) x.push_back(value * scale);
      x[0] = scale, x[1] = -scale, x[2] = 0, x[3] = -0.0f;
      const Lattice lattice = {scale / static_cast<float>(max_level), max_level};
      std::vector<uint16_t> symbols(x.size());
      dither_encode(x.data(), x.size(), {{8, 9}, 10, 11}, 0, lattice, symbols.data(), decoded.data());
      double worst = 0;  // of (|error| - eta) / step
      const double step = lattice.step;
      for (size_t i = 0; i < x.size(); ++i) {
        const double magnitude = std::fabs(double{x[i]});
        const double eta = step * (0x1p-23 + magnitude / step * 0x1p-24) + 0x1p-23 * (magnitude + step);
        worst = std::max(worst, (std::fabs(double{decoded[i]} - double{x[i]}) - eta) / step);
      }
      INFO(levels << " levels, scale " << scale);
      CHECK(worst <= 0.5);
      CHECK(worst > 0.49);
    }
  }
}

TEST_CASE("the error is uniform: its mean and variance are those of the law") {
  const size_t n = 200000;
  for (const float value : {0.0f, 0.1f, -0.5f, 0.9f}) {
    for (const uint32_t max_level : {2u, 200u}) {
      const std::vector<float> x(n, value);
      const Lattice lattice = {1.0f / static_cast<float>(max_level), max_level};
      std::vector<uint16_t> symbols(n);
      std::vector<float> decoded(n);
      dither_encode(x.data(), n, {{8, 9}, 10, 11}, 0, lattice, symbols.data(), decoded.data());
      double sum = 0, squares = 0;
      for (const float d : decoded) {
        const double e = (double{d} - double{value}) / lattice.step;
        sum += e, squares += e * e;
      }
      // Five standard deviations: of the mean sqrt(1/12/n), of the mean square sqrt(1/180/n).
      INFO("x " << value << ", M " << max_level);
      CHECK(std::fabs(sum / n) < 5 * std::sqrt(1.0 / 12 / n));
      CHECK(std::fabs(squares / n - 1.0 / 12) < 5 * std::sqrt(1.0 / 180 / n));
    }
  }
}

namespace {

using LevelRounding = uint32_t (*)(float x, float v, const float* levels, uint32_t count);

// How often each symbol comes, over all v.
std::vector<uint32_t> count_symbols(LevelRounding rounding, float x, const std::vector<float>& levels) {
  std::vector<uint32_t> counts(levels.size());
  const auto size = static_cast<uint32_t>(levels.size());
  for (uint32_t j = 0; j < kDraws; ++j) ++counts[rounding(x, draw_v(j << 9), levels.data(), size)];
  return counts;
}

// Whether x goes to its two neighbours alone, up with its probability to 2^-24: not by sampling, but over all v, so
// that there is no false alarm.
bool is_fair(LevelRounding rounding, float x, const std::vector<float>& levels) {
  const auto counts = count_symbols(rounding, x, levels);
  size_t low = 0;
  while (low + 2 < levels.size() && levels[low + 1] <= x) ++low;
  const double bottom = levels[low], top = levels[low + 1];
  const double fraction = (x - bottom) / (top - bottom), up = counts[low + 1] / double{kDraws};
  return counts[low] + counts[low + 1] == kDraws && std::fabs(up - fraction) <= 0x1p-24 * (1 + 0x1p-20);
}

// Up too often by 2^-22 of a gap.
uint32_t biased_levels(float x, float v, const float* levels, uint32_t count) {
  uint32_t low = 0;
  while (low + 2 < count && levels[low + 1] <= x) ++low;
  const float gap = levels[low + 1] - levels[low];
  return low + (x - levels[low] >= (v - 0x1p-22f) * gap);
}

}  // namespace

TEST_CASE("rounding to levels takes the neighbours with their probabilities") {
  const std::vector<float> uneven = {-1.0f, -0.3f, 0.0f, 0.125f, 0.7f, 1.0f}, far = {-1e30f, 1.0f, 1e30f};
  for (const float x : {-0.9f, -0.31f, -0.2f, -1e-7f, 0.0f, 1e-7f, 0.1f, 0.5f, 0.99999994f}) {
    INFO("x " << x);
    CHECK(is_fair(round_to_levels, x, uneven));
  }
  for (const float x : {-9e29f, 0.5f, 2.0f, 3e29f}) CHECK(is_fair(round_to_levels, x, far));
  CHECK_FALSE(is_fair(biased_levels, 0.5f, uneven));
  CHECK_FALSE(is_fair(biased_levels, -0.2f, uneven));
}

TEST_CASE("a level, and what is beyond the last, is never moved") {
  const std::vector<float> levels = {-2.5f, -1.0f, -0x1p-149f, 0.0f, 0.3f, 7.0f};
  const auto only = [&](float x, size_t symbol) { return count_symbols(round_to_levels, x, levels)[symbol] == kDraws; };
  for (size_t i = 0; i < levels.size(); ++i) CHECK(only(levels[i], i));
  CHECK(only(-0.0f, 3));
  CHECK(only(-3.0f, 0));
  CHECK(only(-INFINITY, 0));
  CHECK(only(1e30f, 5));
}

TEST_CASE("rounding to levels is symmetric: mirrored values among mirrored levels, half of zero to each side") {
  const std::vector<float> levels = {-2.0f, -0.4f, 0.3f, 5.0f}, mirrored = {-5.0f, -0.3f, 0.4f, 2.0f};
  for (const float x : {0.1f, -0.1f, 0.3f, 1.7f, -0.7f}) {
    auto counts = count_symbols(round_to_levels, -x, mirrored);
    std::reverse(counts.begin(), counts.end());
    CHECK(counts == count_symbols(round_to_levels, x, levels));
  }
  CHECK(count_symbols(round_to_levels, 0.0f, {-1.0f, 1.0f}) == std::vector<uint32_t>(2, kDraws / 2));
}
