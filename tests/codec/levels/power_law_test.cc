// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/power_law.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace gradcodec;

namespace {

constexpr double kPaper = 4, kMean = 6;
constexpr double kNoLimit = 1e9;
constexpr PowerLaw kLaw{4, 0.05};

double density(const PowerLaw& law, double x) {
  return x <= 1 ? (1 - 2 * law.tail) / 2 : law.tail * (law.exponent - 1) * std::pow(x, -law.exponent);
}

// Of f from a to b, by Simpson's rule on a logarithmic grid where a > 0.
template <typename Function>
double integral(double a, double b, Function f) {
  constexpr int kSteps = 20000;
  double sum = 0;
  const auto at = [&](int i) { return a > 0 ? a * std::pow(b / a, i / double{kSteps}) : b * i / kSteps; };
  for (int i = 0; i < kSteps; ++i) {
    const double x = at(i), y = at(i + 1);
    sum += (y - x) / 6 * (f(x) + 4 * f((x + y) / 2) + f(y));
  }
  return sum;
}

template <typename Shape>
double error(const PowerLaw& law, double a, double intervals, double c, Shape shape) {
  return 4 * a * a * shape(law, a) / (c * intervals * intervals) + power_law::truncation_error(law, a);
}

double two_scale_best_shape(const PowerLaw& law, double a) { return power_law::two_scales(law, a).shape; }

// The mean over the law of (x - lo)(hi - x), of levels and their negatives; beyond the last nothing.
double true_variance(const PowerLaw& law, const std::vector<double>& levels) {
  const auto between = [&](double lo, double hi) {
    const auto f = [&](double x) { return density(law, x) * (x - lo) * (hi - x); };
    const double from = std::max(lo, 0.0);
    return from < 1 && hi > 1 ? integral(from, 1, f) + integral(1 + 1e-15, hi, f) : integral(from, hi, f);
  };
  double sum = between(-levels[0], levels[0]);
  for (size_t i = 0; i + 1 < levels.size(); ++i) sum += between(levels[i], levels[i + 1]);
  return 2 * sum;
}

}  // namespace

TEST_CASE("probability and truncation error of a power law are its integrals") {
  for (const PowerLaw& law : {kLaw, PowerLaw{3.01, 0.05}, PowerLaw{5, 0.001}}) {
    CHECK(std::fabs(power_law::mass(law, 0.3) - 2 * integral(0, 0.3, [&](double x) { return density(law, x); })) <
          1e-12);
    const auto tail = [&](double a) { return integral(a, a * 1e9, [&](double x) { return density(law, x + 1e-15); }); };
    CHECK(std::fabs(1 - power_law::mass(law, 1) - 2 * tail(1)) < 1e-8);
    CHECK(std::fabs(1 - power_law::mass(law, 7.5) - 2 * tail(7.5)) < 1e-8);
  }
  const auto beyond = [&](double x) { return (x - 2.2473) * (x - 2.2473) * density(kLaw, x); };
  CHECK(std::fabs(power_law::truncation_error(kLaw, 2.2473) - 2 * integral(2.2473, 2.2473e7, beyond)) < 1e-6);
}

TEST_CASE("fixed points of the three designs") {
  const auto uniform = [](double s) { return power_law::uniform_threshold(kLaw, s, kPaper, kNoLimit); };
  CHECK(std::fabs(uniform(15) - 2.2473) < 5e-5);
  CHECK(std::fabs(uniform(63) - 5.8339) < 5e-5);
  CHECK(std::fabs(error(kLaw, uniform(15), 15, kPaper, power_law::mass) - 0.06675) < 5e-6);
  CHECK(std::fabs(error(kLaw, uniform(63), 63, kPaper, power_law::mass) - 0.02571) < 5e-6);
  CHECK(uniform(3) == 1);  // below the tail: limited to where it begins

  const auto nonuniform = [](double s) { return power_law::nonuniform_threshold(kLaw, s, kPaper, kNoLimit); };
  CHECK(std::fabs(nonuniform(15) - 2.917) < 5e-4);
  CHECK(std::fabs(error(kLaw, nonuniform(15), 15, kPaper, power_law::nonuniform_shape) - 0.05142) < 5e-6);
  CHECK(std::fabs(error(kLaw, nonuniform(63), 63, kPaper, power_law::nonuniform_shape) - 0.00818) < 5e-6);

  const auto two = [](double s) { return power_law::two_scale_threshold(kLaw, s, kPaper, kNoLimit); };
  CHECK(std::fabs(two(15) - 2.7244) < 5e-5);
  CHECK(std::fabs(power_law::two_scales(kLaw, two(15)).inner - 0.44) < 0.005);
  CHECK(std::fabs(power_law::two_scales(kLaw, two(63)).inner - 0.19) < 0.005);
  CHECK(std::fabs(error(kLaw, two(15), 15, kPaper, two_scale_best_shape) - 0.05506) < 5e-6);
  CHECK(std::fabs(error(kLaw, two(63), 63, kPaper, two_scale_best_shape) - 0.01330) < 5e-6);
}

// E = (4 a^2 Q / (c s^2)) (exponent - 1) / (exponent - 3) where a is a fixed point.
TEST_CASE("the error at a fixed point has its closed form") {
  for (const PowerLaw& law : {kLaw, PowerLaw{3.3, 0.05}, PowerLaw{5, 0.02}}) {
    for (const double c : {kPaper, kMean}) {
      const double a = power_law::nonuniform_threshold(law, 63, c, kNoLimit);
      REQUIRE(a > 1);
      const double rounding = 4 * a * a * power_law::nonuniform_shape(law, a) / (c * 63 * 63);
      const double closed = rounding * (law.exponent - 1) / (law.exponent - 3);
      CHECK(std::fabs(error(law, a, 63, c, power_law::nonuniform_shape) / closed - 1) < 1e-9);
    }
  }
}

TEST_CASE("the best thresholds have the least error") {
  CHECK(std::fabs(power_law::best_uniform_threshold(kLaw, 15, kPaper, kNoLimit) - 2.2374) < 5e-5);
  CHECK(std::fabs(power_law::best_uniform_threshold(kLaw, 63, kPaper, kNoLimit) - 5.8324) < 5e-5);
  const double exact = power_law::best_nonuniform_threshold(kLaw, 15, kPaper, kNoLimit);
  CHECK(std::fabs(exact - 5.841) < 5e-4);
  CHECK(std::fabs(error(kLaw, exact, 15, kPaper, power_law::nonuniform_shape) - 0.04566) < 5e-6);

  for (const PowerLaw& law : {kLaw, PowerLaw{3.5, 0.02}, PowerLaw{5, 0.05}}) {
    for (const unsigned bits : {1U, 2U, 3U, 4U, 6U, 8U}) {
      const double s = std::ldexp(1.0, static_cast<int>(bits)) - 1;
      for (const double c : {kPaper, kMean}) {
        INFO("exponent " << law.exponent << ", tail " << law.tail << ", " << bits << " bits, c = " << c);
        const auto check = [&](double a, auto shape, double step) {
          const double least = error(law, a, s, c, shape);
          CHECK(least < error(law, a * step, s, c, shape));
          CHECK((a == 1 || least < error(law, a / step, s, c, shape)));
        };
        check(power_law::best_uniform_threshold(law, s, c, kNoLimit), power_law::mass, 1.001);
        check(power_law::best_nonuniform_threshold(law, s, c, kNoLimit), power_law::nonuniform_shape, 1.001);
        if (bits > 1) check(power_law::best_two_scale_threshold(law, s, c, kNoLimit), two_scale_best_shape, 1.001);
      }
    }
  }
}

TEST_CASE("no threshold is beyond its limit") {
  for (const double limit : {1.0, 1.5, 2.0}) {
    for (const double c : {kPaper, kMean}) {
      CHECK(power_law::uniform_threshold(kLaw, 255, c, limit) == limit);
      CHECK(power_law::nonuniform_threshold(kLaw, 255, c, limit) == limit);
      CHECK(power_law::two_scale_threshold(kLaw, 255, c, limit) == limit);
      CHECK(power_law::best_uniform_threshold(kLaw, 255, c, limit) == limit);
      CHECK(power_law::best_nonuniform_threshold(kLaw, 255, c, limit) == limit);
      CHECK(power_law::best_two_scale_threshold(kLaw, 255, c, limit) == limit);
    }
  }
  // The iteration, which would not end by itself here.
  CHECK(power_law::nonuniform_threshold({3.01, 0.05}, 255, kPaper, 12345) == 12345);
}

// A value far beyond all others is a limit of 10^38.
TEST_CASE("the best thresholds do not depend on a limit that is far away") {
  for (const unsigned bits : {2U, 4U, 8U}) {
    const double s = std::ldexp(1.0, static_cast<int>(bits)) - 1;
    for (const auto best : {power_law::best_uniform_threshold, power_law::best_nonuniform_threshold,
                            power_law::best_two_scale_threshold}) {
      const double near = best(kLaw, s, kMean, 1e5), far = best(kLaw, s, kMean, 1e38);
      CHECK(std::fabs(near / far - 1) < 1e-6);
    }
  }
}

TEST_CASE("levels of the nonuniform design are equal shares of the density's cube root") {
  for (const PowerLaw& law : {kLaw, PowerLaw{3.01, 0.05}, PowerLaw{5, 0.01}}) {
    for (const double a : {1.0, 2.917, 50.0}) {
      const std::vector<double> levels = power_law::nonuniform_levels(law, 15, a);
      REQUIRE(levels.size() == 8);
      CHECK(levels.back() == a);
      const auto root = [&](double x) { return std::cbrt(density(law, x)); };
      const auto share = [&](double to) {
        return to <= 1 ? integral(0, to, root) : integral(0, 1, root) + integral(1 + 1e-15, to, root);
      };
      const double whole = share(a);
      for (size_t i = 0; i < 8; ++i) {
        CHECK(std::fabs(share(levels[i]) / whole - (2.0 * static_cast<double>(i) + 1) / 15) < 1e-9);
      }
    }
  }
}

TEST_CASE("two scales share the intervals out in whole numbers") {
  const double a = 2.7244;
  CHECK(power_law::inner_intervals(kLaw, 15, a, 0.44) == 11);  // of 10.342
  const std::vector<double> levels = power_law::two_scale_levels(kLaw, 15, a);
  const double edge = power_law::two_scales(kLaw, a).inner * a;
  const std::vector<double> wanted = {edge / 11,     edge * 3 / 11, edge * 5 / 11,  edge * 7 / 11,
                                      edge * 9 / 11, edge,          (edge + a) / 2, a};
  REQUIRE(levels.size() == wanted.size());
  for (size_t i = 0; i < levels.size(); ++i) CHECK(std::fabs(levels[i] - wanted[i]) < 1e-12);

  // V for c = 6 as the formula has it, with a real and with a whole share, and the mean of (x - lo)(hi - x).
  const double in = power_law::mass(kLaw, edge), out = power_law::mass(kLaw, a) - in;
  const double real = 4 * a * a * power_law::two_scale_shape(kLaw, a, 0.44) / (6 * 15 * 15);
  const double whole = (in * std::pow(2 * edge / 11, 2) + out * std::pow(2 * (a - edge) / 4, 2)) / 6;
  CHECK(std::fabs(real - 0.01224) < 6e-6);
  CHECK(std::fabs(whole - 0.01261) < 5e-6);
  CHECK(std::fabs(true_variance(kLaw, levels) - 0.01217) < 5e-5);

  // At least one interval within and two beyond.
  CHECK(power_law::inner_intervals(kLaw, 3, 1.0, 0.99) == 1);
  CHECK(power_law::inner_intervals(kLaw, 255, 1.0, 0.99) == 253);
  CHECK(power_law::inner_intervals(kLaw, 255, 1.0, 0.01) == 3);
  // Where all shares are alike, as in a constant density, the middle one.
  CHECK(power_law::two_scales(kLaw, 1).inner == 0.5);
}

TEST_CASE("the variance of equal intervals at the fixed point") {
  std::vector<double> levels;
  for (int j = 1; j <= 15; j += 2) levels.push_back(power_law::uniform_threshold(kLaw, 15, kPaper, kNoLimit) * j / 15);
  CHECK(std::fabs(true_variance(kLaw, levels) - 0.0151) < 1e-4);
}
