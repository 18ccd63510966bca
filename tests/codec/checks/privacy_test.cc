// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/privacy.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace gradcodec;

namespace {

constexpr Sensitivity kOne = {1, 1, 1};

double theorem(uint64_t trials, double p = 0.5, double delta = 1e-6) {
  return theorem_epsilon({trials, p, 1}, 1, kOne, delta).value();
}

// delta(epsilon) straight from its definition, for numbers of trials whose probabilities float64 holds.
double delta_of(unsigned trials, unsigned shift, double epsilon) {
  std::vector<double> p(trials + 1);
  for (unsigned y = 0; y <= trials; ++y) {
    p[y] = std::exp(std::lgamma(trials + 1.0) - std::lgamma(y + 1.0) - std::lgamma(trials - y + 1.0) -
                    trials * std::log(2.0));
  }
  double sum = 0;
  for (unsigned y = 0; y <= trials; ++y) {
    sum += std::max(0.0, p[y] - (y >= shift ? std::exp(epsilon) * p[y - shift] : 0));
  }
  return sum;
}

}  // namespace

TEST_CASE("epsilon by the theorem of cpSGD: known values, its condition, and the fewest trials") {
  CHECK(theorem(2000) == Approx(0.637513).epsilon(1e-6));
  CHECK(theorem(1483) == Approx(0.815373).epsilon(1e-6));
  CHECK(theorem(10000) == Approx(0.186085).epsilon(1e-5));
  CHECK_FALSE(theorem_epsilon({1482}, 1, kOne, 1e-6));
  CHECK(theorem_trials({}, 1, kOne, 1e-6, 1) == 1483U);
  CHECK(theorem_trials({.p = 0.25}, 1, kOne, 1e-6, 1) == 1978U);
  CHECK(theorem_trials({.p = 0.75}, 1, kOne, 1e-6, 1) == 1978U);
}

TEST_CASE("the theorem for many coordinates, whose index may move anywhere") {
  // 4-bit indices, 1,000 of them, 100 clients of 2,000 trials: computed apart from this code.
  const Sensitivity moved = replaced_by_any(1000, 15);
  CHECK(moved.l1 == 15000);
  CHECK(moved.l2 == Approx(474.3416490));
  CHECK(moved.max == 15);
  CHECK(theorem_epsilon({200000}, 1000, moved, 1e-6).value() == Approx(11.513987173).epsilon(1e-9));
  // The second condition: 2 max / scale trials p (1 - p).
  CHECK_FALSE(theorem_epsilon({4000}, 1, {5000, 5000, 5000}, 1e-6));
  CHECK_FALSE(theorem_epsilon({4000, 0.5, 0.001}, 1, kOne, 1e-6));
  CHECK_FALSE(theorem_trials({}, 1, {1e300, 1e300, 1e300}, 1e-6, 1));
}

TEST_CASE("the fewest trials are enough, and one fewer are not") {
  for (const double epsilon : {0.05, 0.3, 1.0, 8.0}) {
    for (const uint64_t d : {uint64_t{1}, uint64_t{1000}, uint64_t{25000000}}) {
      const Sensitivity moved = replaced_by_any(d, 15);
      const uint64_t n = theorem_trials({}, d, moved, 1e-6, epsilon).value();
      CHECK(theorem_epsilon({n}, d, moved, 1e-6).value() <= epsilon);
      const auto fewer = theorem_epsilon({n - 1}, d, moved, 1e-6);
      CHECK((!fewer || *fewer > epsilon));
    }
  }
}

TEST_CASE("sensitivity of indices within a ball is at most that of any change") {
  const Sensitivity near = replaced_within(100, 255, 0.01, 0.02);
  CHECK(near.max == 3);  // less than 2 + 2
  CHECK(near.l2 == Approx(22));
  CHECK(near.l1 == Approx(220));
  const Sensitivity far = replaced_within(100, 255, 0.01, 1e6), any = replaced_by_any(100, 255);
  CHECK(far.max == any.max);
  CHECK(far.l2 == any.l2);
  CHECK(far.l1 == any.l1);
}

TEST_CASE("exact epsilon of one integer: known values") {
  CHECK(exact_epsilon(2000, 1, 1e-6) == Approx(0.16825335868).epsilon(1e-9));
  CHECK(exact_epsilon(1483, 1, 1e-6) == Approx(0.19748593172).epsilon(1e-9));
  CHECK(exact_epsilon(10000, 1, 1e-6) == Approx(0.07098164016).epsilon(1e-9));
  CHECK(exact_epsilon(2000, 15, 1e-6) == Approx(3.12840087078).epsilon(1e-9));
  CHECK(std::isinf(exact_epsilon(32, 15, 1e-6)));
  CHECK(std::isinf(exact_epsilon(10, 11, 0.5)));
}

TEST_CASE("at exact epsilon the definition gives delta, and below it more") {
  for (const unsigned trials : {1U, 2U, 7U, 32U, 33U, 200U, 2000U}) {
    for (const unsigned shift : {1U, 2U, 3U, 15U}) {
      for (const double delta : {1e-12, 1e-6, 1e-3, 0.2, 0.5}) {
        INFO(trials << " trials, shift " << shift << ", delta " << delta);
        const double epsilon = exact_epsilon(trials, shift, delta);
        if (std::isinf(epsilon)) {
          CHECK(delta_of(trials, shift, 500) > delta);
          continue;
        }
        CHECK(delta_of(trials, shift, epsilon) <= delta * (1 + 1e-6));
        if (epsilon > 0) CHECK(delta_of(trials, shift, epsilon - 1e-6) > delta * (1 - 1e-6));
      }
    }
  }
}

TEST_CASE("the theorem never promises less than there is") {
  for (const uint64_t trials : {1483, 2000, 10000, 1000000}) {
    CHECK(exact_epsilon(trials, 1, 1e-6) < theorem(trials));
  }
}

TEST_CASE("exact epsilon for the noise of many clients is near that of normal noise") {
  // Normal noise of deviation sigma against a shift a: delta = Phi(a / 2 sigma - e sigma / a) - exp(e) Phi(-..).
  const auto normal = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  for (const uint64_t trials : {uint64_t{100000000}, uint64_t{1} << 36}) {
    const uint64_t shift = 255;
    const double epsilon = exact_epsilon(trials, shift, 1e-6);
    const double ratio = std::sqrt(static_cast<double>(trials)) / 2 / static_cast<double>(shift);
    const double delta =
        normal(0.5 / ratio - epsilon * ratio) - std::exp(epsilon) * normal(-0.5 / ratio - epsilon * ratio);
    CHECK(delta == Approx(1e-6).epsilon(0.01));
  }
}
