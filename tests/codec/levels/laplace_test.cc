// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/laplace.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace gradcodec;

namespace {

constexpr double kPaper = 4, kMean = 6;

// E, its first term by the high-resolution formula for a density of levels s h(|x|): 2 times the integral of
// p / (c (s h)^2), by Simpson's rule.
template <typename Density>
double rounding_error(double intervals, double threshold, double c, Density h) {
  constexpr int kSteps = 4000;
  const auto f = [&](double x) {
    const double density = intervals * h(x);
    return std::exp(-x) / 2 / (c * density * density);
  };
  double sum = f(0) + f(threshold);
  for (int i = 1; i < kSteps; ++i) sum += f(threshold * i / kSteps) * (i % 2 == 0 ? 2 : 4);
  return 2 * sum * threshold / kSteps / 3;
}

// The density proportional to exp(-|x| / 3).
double best_rounding_error(double intervals, double a, double c) {
  const double whole = 6 * (1 - std::exp(-a / 3));
  return rounding_error(intervals, a, c, [=](double x) { return std::exp(-x / 3) / whole; });
}

double truncation_error(double a) { return 2 * std::exp(-a); }

double uniform_error(double intervals, double a, double c) {
  return 4 * a * a / (c * intervals * intervals) * (1 - std::exp(-a)) + truncation_error(a);
}

// Whether f is least at a, among its neighbours.
template <typename Function>
bool is_least_at(double a, Function f) {
  return f(a) < f(a * 0.999) && f(a) < f(a * 1.001);
}

}  // namespace

TEST_CASE("thresholds and errors for a Laplace law are those of the closed forms") {
  struct Row {
    unsigned bits;
    double paper, mean, rounding, truncation, sum;
  };
  // alpha for c = 4 and c = 6, and the parts of E for c = 4, in units of E|x|.
  const std::vector<Row> rows = {
      {1, 0.722161763, 0.863046217, 0.264382219, 0.971402299, 1.235784517},
      {2, 1.790729071, 2.079441542, 0.272446110, 0.333676976, 0.606123087},
      {3, 3.199464045, 3.611918413, 0.155400199, 0.081568113, 0.236968313},
      {4, 4.877399709, 5.375278408, 0.062190864, 0.015233588, 0.077424452},
      {5, 6.733956150, 7.283244708, 0.020077277, 0.002379633, 0.022456910},
      {6, 8.695421244, 9.273127360, 0.005738920, 0.000334701, 0.006073621},
      {7, 10.714087874, 11.306766485, 0.001536730, 0.000044459, 0.001581189},
      {8, 12.762673938, 13.363041889, 0.000397781, 0.000005732, 0.000403513},
  };
  const double kappa = 3 * std::sqrt(6.0) / 2;
  for (const Row& row : rows) {
    INFO(row.bits << " bits");
    const double s = std::ldexp(1.0, static_cast<int>(row.bits)) - 1;
    const double a = laplace::best_threshold(s, kPaper);
    CHECK(std::fabs(a - row.paper) < 1e-9);
    CHECK(std::fabs(laplace::best_threshold(s, kMean) - row.mean) < 1e-9);
    CHECK(std::fabs(best_rounding_error(s, a, kPaper) - row.rounding) < 1e-8);
    CHECK(std::fabs(truncation_error(a) - row.truncation) < 1e-9);
    CHECK(std::fabs(27 / ((s + kappa) * (s + kappa)) - row.sum) < 1e-9);
    CHECK(std::fabs(best_rounding_error(s, a, kPaper) + truncation_error(a) - row.sum) < 1e-8);
    for (const double c : {kPaper, kMean}) {
      const auto error = [=](double at) { return best_rounding_error(s, at, c) + truncation_error(at); };
      CHECK(is_least_at(laplace::best_threshold(s, c), error));
    }
  }
}

TEST_CASE("levels for a Laplace law are those of the closed form, and of its inverse for any threshold") {
  const std::vector<double> two = laplace::levels(3, laplace::best_threshold(3, kPaper));
  REQUIRE(two.size() == 2);
  CHECK(std::fabs(two[0] - 0.486956545938) < 1e-12);
  CHECK(std::fabs(two[1] - 1.790729071340) < 1e-12);
  const std::vector<double> three = laplace::levels(7, laplace::best_threshold(7, kPaper));
  const std::vector<double> golden = {0.295100194492, 0.989892881025, 1.895691519345, 3.199464044747};
  REQUIRE(three.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(std::fabs(three[i] - golden[i]) < 1e-12);

  // 3 ln((s + kappa) / (s + kappa - j)) at the best threshold.
  const double kappa = 3 * std::sqrt(6.0) / 2;
  const std::vector<double> eight = laplace::levels(255, laplace::best_threshold(255, kPaper));
  for (size_t i = 0; i < eight.size(); ++i) {
    const double j = 2.0 * static_cast<double>(i) + 1;
    CHECK(std::fabs(eight[i] - 3 * std::log((255 + kappa) / (255 + kappa - j))) < 1e-12);
  }
  // For another: equal shares of the integral of exp(-x / 3).
  for (const double a : {0.1, 1.0, 40.0}) {
    const std::vector<double> levels = laplace::levels(15, a);
    REQUIRE(levels.size() == 8);
    CHECK(levels.back() == a);
    for (size_t i = 0; i < 8; ++i) {
      const double share = (1 - std::exp(-levels[i] / 3)) / (1 - std::exp(-a / 3));
      CHECK(std::fabs(share - (2.0 * static_cast<double>(i) + 1) / 15) < 1e-12);
    }
  }
  CHECK(laplace::levels(1, 0.5) == std::vector<double>{0.5});
}

TEST_CASE("thresholds of equal intervals for a Laplace law") {
  // Lambert's W(s^2), and E there.
  CHECK(std::fabs(laplace::uniform_threshold(3, kPaper) - 1.6790) < 5e-5);
  CHECK(std::fabs(laplace::uniform_threshold(7, kPaper) - 2.8459) < 5e-5);
  CHECK(std::fabs(laplace::uniform_threshold(15, kPaper) - 4.0239) < 5e-5);
  CHECK(std::fabs(uniform_error(3, laplace::uniform_threshold(3, kPaper), kPaper) - 0.6279) < 5e-5);
  CHECK(std::fabs(uniform_error(7, laplace::uniform_threshold(7, kPaper), kPaper) - 0.2719) < 5e-5);
  CHECK(std::fabs(uniform_error(15, laplace::uniform_threshold(15, kPaper), kPaper) - 0.1064) < 5e-5);
  for (unsigned bits = 1; bits <= 8; ++bits) {
    const double s = std::ldexp(1.0, static_cast<int>(bits)) - 1;
    for (const double c : {kPaper, kMean}) {
      INFO(bits << " bits, c = " << c);
      const double a = laplace::uniform_threshold(s, c);
      CHECK(std::fabs(a * std::exp(a) / (c * s * s / 4) - 1) < 1e-13);
      CHECK(is_least_at(laplace::best_uniform_threshold(s, c), [=](double at) { return uniform_error(s, at, c); }));
    }
  }
}
