// What the tests of `verify` need to know of one element's law; spec/verify.md, "Laws".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "codec/law.h"

namespace gradcodec {

// Whether an error of this kind is left to chance, and the law says how.
inline bool has_chance(Law::Kind kind) { return kind > Law::point; }

// The width of a law of two values, or of one part of a `sum`.
inline double width_of(const Law& law) { return std::fabs(law.hi - law.lo); }

// Of the error's distribution. Inequalities for tails take `tail` for the variance and `step` for the largest term: of
// a weighted sum of such errors, with weights at most w, no independent part is more than w step above its mean.
struct LawNumbers {
  double mean = 0;
  double variance = 0;  // sigma^2
  double tail = 0;      // the same, or more where elements are drawn together
  double step = 0;      // s
  double reach = 0;     // the largest |error - mean|
};

inline LawNumbers numbers_of(const Law& law) {
  const double s = width_of(law), spread = s * s * law.f * (1 - law.f), side = s * std::max(law.f, 1 - law.f);
  const double mean = law.lo + law.f * (law.hi - law.lo), count = law.count;
  switch (law.kind) {
    case Law::none:
    case Law::outside:
    case Law::point:
      break;
    case Law::two:
      return {mean, spread, spread, s, side};
    case Law::uniform:
      return {(law.lo + law.hi) / 2, s * s / 12, s * s / 12, s, s / 2};
    case Law::subset:
      return {mean, spread, s * s * law.f, s, side};
    case Law::sum:
      return {mean, spread + count * s * s / 4, spread + count * s * s / 4, s, side + count * s / 2};
    case Law::cell:
      return {0, law.f, law.f, std::sqrt(count) * law.hi, law.hi};
  }
  return {law.lo, 0, 0, 0, 0};
}

// Of the square of a centred error of any law but `cell`, whose vectors have theirs: its variance as inequalities have
// it, and how far it may lie from its mean.
struct SquareNumbers {
  double tail = 0, largest = 0;
};

inline SquareNumbers square_of(const Law& law, const LawNumbers& numbers) {
  const double s2 = numbers.step * numbers.step;
  switch (law.kind) {
    case Law::uniform:
      return {s2 * s2 / 180, s2 / 6};
    case Law::two:  // s^2 sigma^2 (1 - 2f)^2
      return {numbers.variance * (s2 - 4 * numbers.variance), s2};
    case Law::subset:
      return {law.f * s2 * s2 * (1 - 2 * law.f) * (1 - 2 * law.f), s2};
    case Law::sum: {
      // The fourth cumulant of a sum is the sum of those of its parts, s^4 f (1 - f) (1 - 6 f (1 - f)) each.
      const double p = law.f * (1 - law.f), fourth = s2 * s2 * (p * (1 - 6 * p) - law.count / 8.0);
      return {fourth + 2 * numbers.variance * numbers.variance, numbers.reach * numbers.reach};
    }
    default:
      return {};
  }
}

// What the sum of `trials` errors of a law of another kind than `two` and `subset`, which have exact limits, passes
// with probability e^-l a side at most. `uniform` is strictly sub-Gaussian; else Hoeffding's bound (JASA 58, 1963) or
// Bernstein's, whichever is lower.
inline double coordinate_limit(const Law& law, const LawNumbers& numbers, double trials, double l) {
  if (law.kind == Law::uniform) return numbers.step * std::sqrt(trials * l / 6);
  const double largest2 = law.kind == Law::sum ? numbers.step * numbers.step * (law.count + 1.0) / 4  // of each part
                                               : numbers.reach * numbers.reach;
  const double part = law.kind == Law::sum ? numbers.step : numbers.reach;
  return std::min(std::sqrt(2 * trials * largest2 * l), std::sqrt(2 * trials * numbers.variance * l) + part * l / 3);
}

}  // namespace gradcodec
