// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/fitted.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/kernels/kernels.h"
#include "codec/levels/normal_mixture.h"
#include "codec/levels/table.h"

using namespace gradcodec;

namespace {

NormalMixture narrow() { return NormalMixture(std::vector<NormalPart>{{1, 0, 0.1}}); }

NormalMixture several() {
  return NormalMixture(std::vector<NormalPart>{{2, 0.01, 0.02}, {0, 0.5, 0.1}, {1, 0.1, 0.05}, {1, 0.002, 0.3}});
}

void check_near(std::span<const double> found, const std::vector<double>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (size_t j = 0; j < found.size(); ++j) CHECK(std::fabs(found[j] - expected[j]) <= tolerance);
}

// The variance of d values of norm 1 of these magnitudes, by its definition.
double variance_of(std::span<const double> r, std::span<const float> magnitudes) {
  double sum = 0;
  for (const double x : r) {
    double low = 0;
    for (const float high : magnitudes) {
      if (x <= static_cast<double>(high)) {
        sum += (x - low) * (static_cast<double>(high) - x);
        break;
      }
      low = static_cast<double>(high);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("integrals of a mixture are those of its density") {
  for (const NormalMixture& law : {narrow(), several()}) {
    constexpr int kCells = 200000;
    double m0 = 0, m1 = 0, m2 = 0;
    for (int i = 0; i < kCells; ++i) {
      const double r = (i + 0.5) / kCells, mass = law.at(r).density / kCells;
      m0 += mass, m1 += r * mass, m2 += r * r * mass;
      if (i % 20000 == 19999) {
        const Cumulative here = law.at((i + 1.0) / kCells);
        CHECK(here.moment0 == Approx(m0).epsilon(1e-7));
        CHECK(here.moment1 == Approx(m1).epsilon(1e-7));
        CHECK(here.moment2 == Approx(m2).epsilon(1e-7));
      }
    }
    CHECK(law.at(1).moment0 == Approx(1).epsilon(1e-13));
    for (const double p : {1e-9, 0.01, 0.5, 0.9, 1 - 1e-9}) {
      CHECK(law.at(law.quantile(p, 0, 1, 0.5)).moment0 == Approx(p).margin(1e-12));
    }
  }
}

TEST_CASE("one inner level goes where its neighbours pull alike") {
  std::vector<double> inner = {0.5};
  descend(narrow(), inner);
  CHECK(inner[0] == Approx(0.175191).margin(1e-6));
  CHECK(expected_variance(narrow(), inner) == Approx(0.0071977).margin(1e-7));
  // A very broad normal law is as good as uniform: to the middle.
  inner = {0.1};
  descend(NormalMixture(std::vector<NormalPart>{{1, 0.5, 1000}}), inner);
  CHECK(inner[0] == Approx(0.5).margin(1e-6));
  // Where nothing lies, to the middle.
  inner = {0.1, 0.5};
  descend(NormalMixture(std::vector<NormalPart>{{1, 0.99, 1e-3}}), inner);
  CHECK(inner[0] == 0.25);
}

TEST_CASE("sweeps of ALQ's descent") {
  std::vector<double> inner = {0.125, 0.25, 0.5};
  CHECK(expected_variance(narrow(), inner) == Approx(0.00265322).margin(1e-8));
  const std::vector<std::pair<std::vector<double>, double>> sweeps = {{{0.099950, 0.203658, 0.310045}, 0.00173745},
                                                                      {{0.087015, 0.167032, 0.282564}, 0.00137028},
                                                                      {{0.074851, 0.153027, 0.272364}, 0.00124330}};
  for (const auto& [levels, psi] : sweeps) {
    descend(narrow(), inner);
    check_near(inner, levels, 1e-6);
    CHECK(expected_variance(narrow(), inner) == Approx(psi).margin(1e-8));
  }
  CHECK(expected_variance(narrow(), std::vector<double>{0.25, 0.5, 0.75}) == Approx(0.01014753).margin(1e-8));
  for (std::vector<double> start : {std::vector<double>{0.125, 0.25, 0.5}, std::vector<double>{0.25, 0.5, 0.75}}) {
    for (int i = 0; i < 200; ++i) descend(narrow(), start);
    check_near(start, {0.065963, 0.143193, 0.265313}, 1e-6);
    CHECK(expected_variance(narrow(), start) == Approx(0.00121575).margin(1e-8));
  }
}

TEST_CASE("ALQ ends where sweeps gain nothing, AMQ at the best power") {
  check_near(alq_levels(narrow(), 3), {0.065963, 0.143193, 0.265313}, 1e-3);
  const double base = amq_base(narrow(), 3);
  CHECK(expected_variance(narrow(), powers(0.5, 3)) == Approx(0.00265322).margin(1e-8));
  CHECK(base == Approx(0.4172).margin(5e-5));
  CHECK(expected_variance(narrow(), powers(base, 3)) == Approx(0.00169259).margin(1e-8));
  for (const NormalMixture& law : {narrow(), several()}) {
    for (const unsigned s : {1U, 2U, 3U, 6U, 14U, 62U, 126U}) {
      const std::vector<double> alq = alq_levels(law, s), amq = powers(amq_base(law, s), s);
      const double nuq = expected_variance(law, exponential_levels(s));
      INFO(s << " levels: " << expected_variance(law, alq) << ' ' << expected_variance(law, amq) << ' ' << nuq);
      CHECK(std::is_sorted(alq.begin(), alq.end()));
      CHECK(expected_variance(law, alq) <= expected_variance(law, amq) * (1 + 1e-4));
      CHECK(expected_variance(law, amq) <= nuq * (1 + 1e-3));  // AMQ stops at 2^-40
      CHECK(are_magnitudes(stored_magnitudes(alq)));
      CHECK(are_magnitudes(stored_magnitudes(amq)));
    }
  }
  CHECK(powers(0.5, 3) == std::vector<double>{0.125, 0.25, 0.5});
}

TEST_CASE("stored magnitudes are apart whatever they were") {
  const std::vector<std::vector<double>> inner = {
      {0, 0, 0}, {1, 1, 1}, {0.5, 0.5, 0.5}, {0, 1e-30, 1}, {0.25, 0.25000001, 0.3}};
  for (const auto& levels : inner) {
    const std::vector<float> magnitudes = stored_magnitudes(levels);
    CHECK(are_magnitudes(magnitudes));
    CHECK(magnitudes.back() == 1);
    CHECK(magnitudes.front() >= 0x1p-60F);
  }
  CHECK(stored_magnitudes(std::vector<double>{0.25, 0.5}) == std::vector<float>{0.25F, 0.5F, 1});
}

TEST_CASE("the bound is what its formulas give, and holds for the worst that is known") {
  // rho = 2, c = 1/8: 1/8 + 2 A^2 / 9 up to A = 9/4, then A - 1.
  const auto bound = [](unsigned s, double d) { return level_bound(stored_magnitudes(exponential_levels(s)), d); };
  CHECK(bound(3, 8192) == Approx(10.3137).epsilon(1e-4));
  CHECK(bound(3, 512) == Approx(1.8284).epsilon(1e-4));
  CHECK(bound(3, 64) == Approx(0.3472).epsilon(1e-4));
  // 22 values at 1/6 and the rest alike.
  std::vector<double> r(8192, std::sqrt((1 - 22.0 / 36) / 8170));
  std::fill_n(r.begin(), 22, 1.0 / 6);
  const double worst = variance_of(r, stored_magnitudes(exponential_levels(6)));
  CHECK(worst == Approx(0.5682).epsilon(1e-3));
  CHECK(worst <= bound(6, 8192));
  // Any other directions, in several sizes.
  std::vector<uint32_t> words(4096);
  for (const uint32_t key : {1U, 2U, 3U}) {
    kernels::scalar::philox_words({{key, 5}, 0, 0}, 0, words.size(), words.data());
    for (const size_t d : {size_t{1}, size_t{2}, size_t{64}, size_t{4096}}) {
      std::vector<double> x(d);
      double norm = 0;
      for (size_t i = 0; i < d; ++i) x[i] = std::ldexp(words[i] & 0xFFFF, -static_cast<int>(key * (words[i] >> 29)));
      for (const double value : x) norm += value * value;
      for (double& value : x) value /= std::sqrt(norm);
      for (const unsigned s : {1U, 3U, 7U}) {
        for (const auto& inner : {exponential_levels(s), powers(0.7, s), powers(0.2, s)}) {
          const std::vector<float> magnitudes = stored_magnitudes(inner);
          CHECK(variance_of(x, magnitudes) <= level_bound(magnitudes, static_cast<double>(d)));
        }
      }
    }
  }
}
