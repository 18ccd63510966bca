// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/table.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace gradcodec;

namespace {

float next_up(float x) { return std::nextafter(x, std::numeric_limits<float>::infinity()); }

}  // namespace

TEST_CASE("tables are mirrored, with and without 0") {
  const std::vector<float> magnitudes = {0.25F, 1};
  CHECK(mirrored_levels(magnitudes, true) == std::vector<float>{-1, -0.25F, 0, 0.25F, 1});
  CHECK(mirrored_levels(magnitudes, false) == std::vector<float>{-1, -0.25F, 0.25F, 1});
  CHECK(is_antisymmetric(mirrored_levels(magnitudes, true)));
  CHECK(is_antisymmetric(mirrored_levels(magnitudes, false)));
  CHECK(!is_antisymmetric(std::vector<float>{-1, 0, 0.5F}));
  CHECK(rest_symbol(mirrored_levels(magnitudes, true)) == 2);
  CHECK(rest_symbol(mirrored_levels(magnitudes, false)) == 0);
  CHECK(rest_symbol({}) == 0);
}

TEST_CASE("a value's interval is that whose lower end it has, the last one closed") {
  const std::vector<float> levels = {-1, -0.25F, 0.25F, 1};
  const std::pair<double, size_t> expected[] = {{-1, 0}, {-0.3, 0}, {-0.25, 1}, {0, 1}, {0.25, 2}, {0.9, 2}, {1, 2}};
  for (const auto& [x, place] : expected) CHECK(interval_of(levels, x) == place);
  CHECK(interval_of(std::vector<float>{-1, 1}, 1) == 0);
}

TEST_CASE("magnitudes are normal, increase, and keep their distance") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(are_magnitudes({}));
  CHECK(are_magnitudes(std::vector<float>{0x1p-126F, 1, 0x1p126F}));
  CHECK(are_magnitudes(std::vector<float>{1, 1 + 0x1p-16F}));
  const std::vector<std::vector<float>> wrong = {{0, 1},
                                                 {-1, 1},
                                                 {0x1p-127F, 1},
                                                 {1, 1},
                                                 {2, 1},
                                                 {1, next_up(1)},
                                                 {1, next_up(0x1p126F)},
                                                 {1, infinity},
                                                 {std::nanf(""), 1},
                                                 {0.5F, std::nanf("")}};
  for (const auto& magnitudes : wrong) {
    CHECK(!are_magnitudes(magnitudes));
    Bytes stored;
    put_magnitudes(stored, magnitudes);
    ByteReader reader(stored, "levels");
    CHECK_THROWS_AS(take_magnitudes(reader, magnitudes.size()), Error);
  }
  Bytes stored;
  put_magnitudes(stored, std::vector<float>{0.5F, 1});
  ByteReader reader(stored, "levels");
  CHECK(take_magnitudes(reader, 2) == std::vector<float>{0.5F, 1});
  ByteReader again(stored, "levels");
  CHECK_THROWS_AS(take_magnitudes(again, size_t{1} << 60), Error);
}

TEST_CASE("a scale reaches the largest value, and keeps levels distinct and normal") {
  const std::vector<std::vector<float>> tables = {
      {-1, 1},
      mirrored_levels(std::vector<float>{0x1p-30F, 1}, true),
      mirrored_levels(std::vector<float>{0.3F, 0.3F * (1 + 0x1p-16F), 2.7F}, false)};
  for (const auto& levels : tables) {
    const ScaleRange range = scale_range(levels);
    CHECK(covering_scale(1, 0, levels) == 0);
    for (const float max : {0x1p-149F, 1e-38F, 1e-30F, 0.1F, 1.0F, 3.3F, 1e30F, 0x1p126F}) {
      for (const double wanted : {0.0, 1e-60, 0.123456789, 1e37, 1e300}) {
        const float scale = covering_scale(wanted, max, levels);
        INFO(levels.size() << " levels, at least " << wanted << ", max " << max << ": " << scale);
        CHECK(range.has(scale));
        CHECK(scale * levels.back() >= max);
        CHECK((scale >= wanted || scale == range.greatest));
        std::vector<float> table(levels.size());
        scale_levels(levels, scale, table);
        for (size_t j = 0; j < table.size(); ++j) {
          if (j > 0) CHECK(table[j] > table[j - 1]);
          CHECK((table[j] == 0 || (std::fabs(table[j]) >= 0x1p-126F && std::fabs(table[j]) <= 0x1p127F)));
        }
        const float less = std::bit_cast<float>(std::bit_cast<uint32_t>(scale) - 1);
        CHECK((less < wanted || less < range.least || double{less} * double{levels.back()} < double{max} ||
               scale == range.greatest));
      }
    }
  }
  CHECK(covering_scale(0.1, 0.05F, tables[0]) == 0.1F);  // 0.1 rounded up is the nearest float here
  CHECK(covering_scale(0.3, 0.05F, tables[0]) == 0.3F);
  CHECK(covering_scale(0.7, 0.05F, tables[0]) > 0.7F);  // whose nearest float lies below
}
