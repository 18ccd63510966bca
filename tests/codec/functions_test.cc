// Against libm's long double, which has 11 bits more on x86-64; elsewhere (ARM: 60 more) it has no fewer.
// SPDX-License-Identifier: Apache-2.0
#include "codec/functions.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace gradcodec::functions;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallestNormal = std::numeric_limits<double>::min();

double relative_error(double found, long double truth) {
  return static_cast<double>(std::fabs((static_cast<long double>(found) - truth) / truth));
}

// Largest relative error of `f` over points where the result is a normal number.
template <typename F, typename Truth>
double worst(const std::vector<double>& points, F f, Truth truth) {
  double most = 0;
  for (double x : points) {
    const long double wanted = truth(static_cast<long double>(x));
    if (std::fabs(wanted) < static_cast<long double>(kSmallestNormal)) continue;
    most = std::max(most, relative_error(f(x), wanted));
  }
  return most;
}

std::vector<double> evenly(double from, double to, int count) {
  std::vector<double> points;
  for (int i = 0; i < count; ++i) points.push_back(from + (to - from) * i / (count - 1));
  return points;
}

// All binades, four points each.
std::vector<double> magnitudes() {
  std::vector<double> points;
  for (int e = -1074; e < 1024; ++e) {
    for (double m : {1.0, 1.2345, 1.41421356, 1.99999}) points.push_back(std::ldexp(m, e));
  }
  return points;
}

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

long double true_cdf(long double x) { return std::erfc(-x / std::sqrt(2.0L)) / 2; }

// What an error of `x` as the quantile of p is, from one Newton step in long double.
double quantile_error(double x, double p) {
  const long double at = x;
  const long double density = std::exp(-at * at / 2) / std::sqrt(2 * std::acos(-1.0L));
  const long double excess = std::fabs(p - 0.5) < 0.3
                                 ? std::erf(at / std::sqrt(2.0L)) / 2 - (static_cast<long double>(p) - 0.5L)
                                 : true_cdf(at) - static_cast<long double>(p);
  return static_cast<double>(std::fabs(excess / density / at));
}

}  // namespace

TEST_CASE("natural_exp is right to 5e-16") {
  const auto truth = [](long double x) { return std::exp(x); };
  CHECK(worst(evenly(-708.3, 709.7, 100001), natural_exp, truth) < 5e-16);
  CHECK(worst(evenly(-1e-3, 1e-3, 10001), natural_exp, truth) < 5e-16);
  CHECK(natural_exp(0) == 1);
  CHECK(natural_exp(-0.0) == 1);
  CHECK(natural_exp(1e-320) == 1);
  CHECK(natural_exp(710) == kInfinity);
  CHECK(natural_exp(kInfinity) == kInfinity);
  CHECK(natural_exp(-746) == 0);
  CHECK(natural_exp(-kInfinity) == 0);
  CHECK(std::isnan(natural_exp(kNan)));
  for (double x : evenly(-745.1, -708.5, 301)) CHECK(std::fabs(natural_exp(x) - std::exp(x)) <= 0x1p-1074);
}

TEST_CASE("natural_log is right to 5e-16") {
  const auto truth = [](long double x) { return std::log(x); };
  CHECK(worst(magnitudes(), natural_log, truth) < 5e-16);
  CHECK(worst(evenly(0.4, 2.5, 100002), natural_log, truth) < 5e-16);
  CHECK(worst(evenly(1 - 1e-9, 1 + 1e-9, 10002), natural_log, truth) < 5e-16);
  CHECK(same_bits(natural_log(1), 0.0));
  CHECK(natural_log(0) == -kInfinity);
  CHECK(natural_log(-0.0) == -kInfinity);
  CHECK(natural_log(kInfinity) == kInfinity);
  CHECK(std::isnan(natural_log(-1)));
  CHECK(std::isnan(natural_log(kNan)));
}

TEST_CASE("power is right to 1e-15 + 5e-16 |y ln x|") {
  for (double y : {-300.0, -2.0, -1.0 / 3, -1e-5, 0.1, 1.0 / 3, 0.5, 1.0, 4.01, 1000.0}) {
    for (double x : magnitudes()) {
      const long double wanted = std::pow(static_cast<long double>(x), static_cast<long double>(y));
      if (!(wanted >= static_cast<long double>(kSmallestNormal)) || wanted > 1.79e308L) continue;
      INFO(x << "^" << y);
      CHECK(relative_error(power(x, y), wanted) < 1e-15 + 5e-16 * std::fabs(y * std::log(x)));
    }
  }
  CHECK(power(0, 2) == 0);
  CHECK(power(0, -2) == kInfinity);
  CHECK(power(0, 0) == 1);
  CHECK(power(kInfinity, 0.5) == kInfinity);
  CHECK(power(kInfinity, 0) == 1);
  CHECK(power(1, 1e300) == 1);
  CHECK(std::isnan(power(-1, 0.5)));
}

TEST_CASE("normal_density is right to 2e-15") {
  const auto truth = [](long double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L)); };
  CHECK(worst(evenly(-37.6, 37.6, 100001), normal_density, truth) < 2e-15);
  CHECK(same_bits(normal_density(1.25), normal_density(-1.25)));
  CHECK(normal_density(1e300) == 0);
  CHECK(normal_density(-kInfinity) == 0);
  CHECK(std::isnan(normal_density(kNan)));
}

TEST_CASE("normal_cdf is right to 2e-14, far into the lower tail") {
  CHECK(worst(evenly(-37.5, 9, 100001), normal_cdf, true_cdf) < 2e-14);
  CHECK(worst(evenly(-2.0001, -1.9999, 1001), normal_cdf, true_cdf) < 2e-14);
  CHECK(normal_cdf(0) == 0.5);
  CHECK(normal_cdf(40) == 1);
  CHECK(normal_cdf(-40) == 0);
  CHECK(normal_cdf(kInfinity) == 1);
  CHECK(normal_cdf(-kInfinity) == 0);
  CHECK(std::isnan(normal_cdf(kNan)));
}

TEST_CASE("normal_quantile is right to 2e-14, in both tails and about the middle") {
  double most = 0;
  for (int e = -1021; e < -1; ++e) {
    for (double m : {1.0, 1.3, 1.9})
      most = std::max(most, quantile_error(normal_quantile(std::ldexp(m, e)), std::ldexp(m, e)));
  }
  for (double p : evenly(1e-4, 0.9999, 20002)) most = std::max(most, quantile_error(normal_quantile(p), p));
  for (int e = -52; e < -2; ++e) {
    const double p = 0.5 + std::ldexp(1.0, e);
    most = std::max(most, quantile_error(normal_quantile(p), p));
  }
  CHECK(most < 2e-14);
  CHECK(same_bits(normal_quantile(0.5), 0.0));
  CHECK(normal_quantile(0.25) == -normal_quantile(0.75));
  CHECK(normal_quantile(0x1p-53) == -normal_quantile(1 - 0x1p-53));
  CHECK(normal_quantile(0) == -kInfinity);
  CHECK(normal_quantile(1) == kInfinity);
  CHECK(std::isfinite(normal_quantile(0x1p-1074)));
  CHECK(std::isnan(normal_quantile(-0.1)));
  CHECK(std::isnan(normal_quantile(1.1)));
  CHECK(std::isnan(normal_quantile(kNan)));
}

// Golden bits: what a compiler or a machine that rounds otherwise would change.
TEST_CASE("the elementary functions have the same bits everywhere") {
  CHECK(same_bits(natural_exp(1.25), 0x1.bec38edb0fafp+1));
  CHECK(same_bits(natural_exp(-700.7), 0x1.130e7f11093c4p-1011));
  CHECK(same_bits(natural_log(0.1), -0x1.26bb1bbb55515p+1));
  CHECK(same_bits(natural_log(1.4142), 0x1.62e1ac5b1d18p-2));
  CHECK(same_bits(power(3.7, -1.0 / 3), 0x1.4b08139910583p-1));
  CHECK(same_bits(power(0.01, 2.37), 0x1.314b8e87f9deap-16));
  CHECK(same_bits(normal_density(1.7), 0x1.81399af8d7deep-4));
  CHECK(same_bits(normal_density(30.3), 0x1.54b01a157f033p-664));
  CHECK(same_bits(normal_cdf(-1.3), 0x1.8c7eaa3883ad4p-4));
  CHECK(same_bits(normal_cdf(-7.1), 0x1.5f28d013cc582p-41));
  CHECK(same_bits(normal_cdf(0.7), 0x1.841d5715c32a8p-1));
  CHECK(same_bits(normal_quantile(0.001), -0x1.8b8cbb7204471p+1));
  CHECK(same_bits(normal_quantile(0.6), 0x1.036d6c4a04b59p-2));
}
