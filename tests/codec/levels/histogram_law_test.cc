// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/histogram_law.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/error.h"
#include "codec/levels/fitted.h"
#include "codec/levels/normal_mixture.h"

using namespace gradcodec;

namespace {

HistogramLaw like(const MagnitudeLaw& law) {
  constexpr int kPoints = 400000;
  std::vector<CellSums> cells(HistogramLaw::kCells);
  for (int i = 0; i < kPoints; ++i) {
    const double r = (i + 0.5) / kPoints;
    cells[HistogramLaw::cell_of(static_cast<float>(r))].add(law.at(r).density, r);
  }
  return HistogramLaw(cells);
}

}  // namespace

TEST_CASE("cells are 32 an octave, and one is for all that is less") {
  CHECK(HistogramLaw::cell_of(0) == 0);
  CHECK(HistogramLaw::cell_of(0x1.fffffep-41F) == 0);
  CHECK(HistogramLaw::cell_of(0x1p-40F) == 1);
  CHECK(HistogramLaw::cell_of(0x1p-39F) == 33);
  CHECK(HistogramLaw::cell_of(0.5F) == HistogramLaw::kCells - 32);
  CHECK(HistogramLaw::cell_of(0x1.fffffep-1F) == HistogramLaw::kCells - 1);
  CHECK(HistogramLaw::cell_of(1) == HistogramLaw::kCells - 1);
  CHECK_THROWS_AS(HistogramLaw(std::vector<CellSums>(HistogramLaw::kCells)), Error);
}

TEST_CASE("a histogram is a law of its own, with integrals and quantiles that fit each other") {
  const NormalMixture normal(std::vector<NormalPart>{{1, 0, 0.1}});
  const HistogramLaw law = like(normal);
  for (const double x : {0.0, 1e-13, 1e-3, 0.03, 0.1, 0.33, 0.5, 1.0}) {
    const Cumulative here = law.at(x), expected = normal.at(x);
    CHECK(here.moment0 == Approx(expected.moment0).epsilon(1e-3).margin(1e-4));
    CHECK(here.moment1 == Approx(expected.moment1).epsilon(1e-3).margin(1e-4));
    CHECK(here.moment2 == Approx(expected.moment2).epsilon(1e-3).margin(1e-4));
  }
  for (const double p : {0.001, 0.2, 0.5, 0.99}) CHECK(law.at(law.quantile(p, 0, 1, 0.5)).moment0 == Approx(p));
  CHECK(law.quantile(0.5, 0.2, 0.3, 0.25) == 0.2);  // beyond what it may be
  CHECK(expected_variance(law, std::vector<double>{0.125, 0.25, 0.5}) == Approx(0.00265322).epsilon(1e-3));
}

TEST_CASE("levels fitted to a histogram are those fitted to its law") {
  const NormalMixture normal(std::vector<NormalPart>{{1, 0, 0.1}});
  const HistogramLaw law = like(normal);
  const std::vector<double> levels = alq_levels(law, 3), expected = {0.065963, 0.143193, 0.265313};
  for (size_t j = 0; j < 3; ++j) CHECK(levels[j] == Approx(expected[j]).epsilon(0.01));
  CHECK(amq_base(law, 3) == Approx(0.4172).epsilon(0.005));
}

TEST_CASE("levels of a law in one cell, and of one with gaps, are in order") {
  std::vector<CellSums> one(HistogramLaw::kCells), two(HistogramLaw::kCells);
  one[HistogramLaw::cell_of(0.01F)].add(5, 0.01);
  two[0].add(1, 0), two[HistogramLaw::cell_of(1)].add(1, 1);
  for (const auto& cells : {one, two}) {
    const HistogramLaw law(cells);
    for (const unsigned s : {1U, 3U, 126U}) {
      const std::vector<double> levels = alq_levels(law, s);
      for (size_t j = 0; j < s; ++j) CHECK((levels[j] > (j == 0 ? 0 : levels[j - 1]) && levels[j] < 1));
      CHECK(expected_variance(law, levels) <= expected_variance(law, exponential_levels(s)) + 1e-12);
    }
  }
}
