// The tables of levels for the normal law against the conditions that define them, and what they give.
// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/normal.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace gradcodec;

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * kPi); }

// Of a standard normal variable between low and high: the probability, and the integrals of z and of z^2.
struct Moments {
  Moments(double low, double high)
      : mass((std::erf(high / std::sqrt(2.0)) - std::erf(low / std::sqrt(2.0))) / 2),
        first(density(low) - density(high)),
        second(mass + (low == 0 ? 0 : low * density(low)) - (std::isinf(high) ? 0 : high * density(high))) {}
  double mass, first, second;
};

// Midpoints of magnitudes, 0 before and infinity after.
std::vector<double> boundaries(std::span<const float> magnitudes) {
  std::vector<double> out = {0};
  for (size_t i = 1; i < magnitudes.size(); ++i) out.push_back((double{magnitudes[i - 1]} + double{magnitudes[i]}) / 2);
  out.push_back(kInfinity);
  return out;
}

// The expected variance of stochastic rounding to both signs of these magnitudes, of what lies among them.
double rounding_variance(const std::vector<double>& magnitudes) {
  const double inner = magnitudes[0];
  const Moments middle(0, inner);
  double half = inner * inner * middle.mass - middle.second;
  for (size_t i = 1; i < magnitudes.size(); ++i) {
    const double low = magnitudes[i - 1], high = magnitudes[i];
    const Moments part(low, high);
    half += (low + high) * part.first - low * high * part.mass - part.second;
  }
  return 2 * half;
}

std::vector<double> with_top(unsigned bits, double top) {
  const auto inner = normal::rounding_levels(bits);
  std::vector<double> out(inner.begin(), inner.end());
  out.push_back(top);
  return out;
}

// Each inner magnitude in turn to where the variance is least between its neighbours, until nothing moves.
std::vector<double> best_levels(std::vector<double> levels) {
  for (int sweep = 0; sweep < 2000; ++sweep) {
    for (size_t i = 0; i + 1 < levels.size(); ++i) {
      double low = i == 0 ? 0 : levels[i - 1], high = levels[i + 1];
      for (int step = 0; step < 60; ++step) {
        const double a = low + (high - low) / 3, b = high - (high - low) / 3;
        std::vector<double> at_a = levels, at_b = levels;
        at_a[i] = a;
        at_b[i] = b;
        (rounding_variance(at_a) < rounding_variance(at_b) ? high : low) =
            rounding_variance(at_a) < rounding_variance(at_b) ? b : a;
      }
      levels[i] = (low + high) / 2;
    }
  }
  return levels;
}

}  // namespace

TEST_CASE("each centroid is the mean of the normal law between the midpoints about it") {
  constexpr double kDistances[] = {0.363380, 0.117482, 0.034548, 0.009501};
  for (unsigned bits = 1; bits <= normal::kMaxBits; ++bits) {
    const auto levels = normal::centroids(bits);
    REQUIRE(levels.size() == size_t{1} << (bits - 1));
    const std::vector<double> edges = boundaries(levels);
    double distance = 1;
    for (size_t i = 0; i < levels.size(); ++i) {
      const Moments cell(edges[i], edges[i + 1]);
      INFO(bits << " bits, level " << i);
      CHECK(double{levels[i]} == Approx(cell.first / cell.mass).margin(3e-7));
      distance += 2 * (double{levels[i]} * double{levels[i]} * cell.mass - 2 * double{levels[i]} * cell.first);
    }
    CHECK(distance == Approx(kDistances[bits - 1]).margin(5e-7));
  }
}

TEST_CASE("the levels for stochastic rounding have the least variance under the normal law") {
  constexpr double kVariances[] = {0.74448, 0.11189, 0.02286};
  for (unsigned bits = 2; bits <= normal::kMaxBits; ++bits) {
    const std::vector<double> levels = with_top(bits, normal::kTop);
    REQUIRE(levels.size() == size_t{1} << (bits - 1));
    CHECK(std::is_sorted(levels.begin(), levels.end()));
    CHECK(rounding_variance(levels) == Approx(kVariances[bits - 2]).margin(1e-5));
    // The derivative by each level is 0: what a higher one costs below it is what it saves above.
    for (size_t i = 0; i + 1 < levels.size(); ++i) {
      const Moments above(levels[i], levels[i + 1]);
      const double saved = levels[i + 1] * above.mass - above.first;
      const double low = i == 0 ? 0 : levels[i - 1];
      const Moments below(low, levels[i]);
      const double cost = i == 0 ? 2 * levels[i] * below.mass : below.first - low * below.mass;
      INFO(bits << " bits, level " << i);
      CHECK(cost == Approx(saved).margin(1e-7));
    }
  }
}

TEST_CASE("coordinate descent from equal gaps ends at the levels for stochastic rounding") {
  const std::vector<double> found = best_levels({0.5, 1.5, 2.5, normal::kTop});
  const std::vector<double> levels = with_top(3, normal::kTop);
  for (size_t i = 0; i < levels.size(); ++i) CHECK(levels[i] == Approx(found[i]).margin(1e-6));
}

TEST_CASE("the levels for stochastic rounding are good for other top levels, too") {
  for (unsigned bits = 2; bits <= normal::kMaxBits; ++bits) {
    const std::vector<double> at_3 = {0.54781, 0.08932, 0.01884}, at_5 = {0.99175, 0.13261, 0.02576};  // of the best
    CHECK(rounding_variance(with_top(bits, 3)) <= 1.09 * at_3[bits - 2]);
    CHECK(rounding_variance(with_top(bits, 5)) <= 1.07 * at_5[bits - 2]);
  }
}
