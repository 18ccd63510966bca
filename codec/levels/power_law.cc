// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/power_law.h"

#include <algorithm>
#include <cmath>

#include "codec/functions.h"
#include "codec/levels/search.h"

namespace gradcodec::power_law {
namespace {

using functions::power;

double cube_root(double x) { return x > 0 ? power(x, 1.0 / 3) : 0; }
double cube(double x) { return x * x * x; }

double body(const PowerLaw& law) { return 0.5 * (1 - 2 * law.tail); }  // the density below 1

// P(x > a), a >= 1.
double beyond(const PowerLaw& law, double a) { return law.tail * power(a, 1 - law.exponent); }

// At x >= 1, from above: at 1 it has a step.
double density(const PowerLaw& law, double x) { return law.tail * (law.exponent - 1) * power(x, -law.exponent); }

// The integral of the density's cube root from 0 to x, and its inverse. Beyond 1 it is that to 1, plus
// (A^(1/3) / q) (x^q - 1) with A = tail (exponent - 1), q = 1 - exponent / 3 < 0.
struct Companding {
  explicit Companding(const PowerLaw& law)
      : root_of_body(cube_root(body(law))),
        q(1 - law.exponent / 3),
        factor(cube_root(law.tail * (law.exponent - 1)) / q) {}
  double of(double x) const { return x <= 1 ? x * root_of_body : root_of_body + factor * (power(x, q) - 1); }
  double inverse(double y) const {
    return y <= root_of_body ? y / root_of_body : power(1 + (y - root_of_body) / factor, 1 / q);
  }
  double root_of_body, q, factor;
};

// dE/da = 0 with Q constant: a^(exponent - 1) = c tail s^2 / (2 (exponent - 2) Q). Q falls with a, so that a rises from
// step to step, to the fixed point or the limit.
template <typename Shape>
double fixed_point(const PowerLaw& law, double intervals, double c, double limit, Shape shape) {
  constexpr int kMostSteps = 200;
  const double numerator = c * law.tail * intervals * intervals / (2 * (law.exponent - 2));
  const auto next = [&](double q) { return std::clamp(power(numerator / q, 1 / (law.exponent - 1)), 1.0, limit); };
  double a = next(1);
  for (int step = 0; step < kMostSteps; ++step) {
    const double before = a;
    a = next(shape(a));
    if (std::fabs(a - before) < 1e-12 * a) break;
  }
  return a;
}

// P(|x| <= k a) and P(k a < |x| <= a), to the power 1/3, times k^(2/3) and (1 - k)^(2/3).
struct Weights {
  Weights(const PowerLaw& law, double a, double inner)
      : in(cube_root(mass(law, inner * a) * inner * inner)),
        out(cube_root((mass(law, a) - mass(law, inner * a)) * (1 - inner) * (1 - inner))) {}
  double in, out;
};

}  // namespace

double mass(const PowerLaw& law, double a) { return a <= 1 ? 2 * body(law) * a : 1 - 2 * beyond(law, a); }

double truncation_error(const PowerLaw& law, double a) {
  return 4 * law.tail * power(a, 3 - law.exponent) / ((law.exponent - 2) * (law.exponent - 3));
}

double uniform_threshold(const PowerLaw& law, double intervals, double c, double limit) {
  return fixed_point(law, intervals, c, limit, [&](double a) { return mass(law, a); });
}

// dE/da = 0, over 4 a, with r = P(x > a): 2 (1 - 2 r) + 2 (exponent - 1) r = r c s^2 / (exponent - 2). No such r up to
// `tail`: E rises from a = 1 on.
double best_uniform_threshold(const PowerLaw& law, double intervals, double c, double limit) {
  const double divisor = c * intervals * intervals / (law.exponent - 2) + 6 - 2 * law.exponent;
  if (!(divisor * law.tail > 2)) return 1;
  return std::min(power(divisor * law.tail / 2, 1 / (law.exponent - 1)), limit);
}

double nonuniform_shape(const PowerLaw& law, double a) { return cube(2 * Companding(law).of(a)) / (4 * a * a); }

double nonuniform_threshold(const PowerLaw& law, double intervals, double c, double limit) {
  return fixed_point(law, intervals, c, limit, [&](double a) { return nonuniform_shape(law, a); });
}

// With V = H^3 / (c s^2), H = 2 of(a): dE/da = 0 is H = s a p(a)^(1/3) sqrt(2 c / (3 (exponent - 1) (exponent - 2))).
// The left side rises with a, the right side falls.
double best_nonuniform_threshold(const PowerLaw& law, double intervals, double c, double limit) {
  const Companding companding(law);
  const double factor = intervals * std::sqrt(2 * c / (3 * (law.exponent - 1) * (law.exponent - 2)));
  const auto rising = [&](double a) { return 2 * companding.of(a) - factor * a * cube_root(density(law, a)); };
  return root_of_rising(rising, 1, limit);
}

std::vector<double> nonuniform_levels(const PowerLaw& law, unsigned intervals, double threshold) {
  const Companding companding(law);
  const double whole = companding.of(threshold);
  std::vector<double> found;
  for (unsigned j = 1; j < intervals; j += 2) found.push_back(companding.inverse(whole * j / intervals));
  found.push_back(threshold);
  return found;
}

double two_scale_shape(const PowerLaw& law, double a, double inner) {
  const Weights weights(law, a, inner);
  return cube(weights.in + weights.out);
}

TwoScales two_scales(const PowerLaw& law, double a) {
  const auto shape_of = [&](double inner) { return two_scale_shape(law, a, inner); };
  TwoScales best{0.5, shape_of(0.5)};
  const auto offer = [&](double inner) {
    if (const double shape = shape_of(inner); shape < best.shape * (1 - 1e-9)) best = {inner, shape};
  };
  for (int away = 1; away < 50; ++away) {
    offer((50 - away) / 100.0);
    offer((50 + away) / 100.0);
  }
  offer(place_of_least(shape_of, best.inner - 0.01, best.inner + 0.01));
  return best;
}

double two_scale_threshold(const PowerLaw& law, double intervals, double c, double limit) {
  return fixed_point(law, intervals, c, limit, [&](double a) { return two_scales(law, a).shape; });
}

// a^2 Q = T^3 with T = in^(1/3) b^(2/3) + out^(1/3) (a - b)^(2/3), b = k a; `in` and `out` the probabilities. At the
// best b it does not matter that b moves with a: dT/da = (2 / 3) out^(1/3) (a - b)^(-1/3)
// + (2 / 3) p(a) out^(-2/3) (a - b)^(2/3), and dE/da = 12 T^2 dT/da / (c s^2) - 4 tail a^(2 - exponent) / (exponent -
// 2).
double best_two_scale_threshold(const PowerLaw& law, double intervals, double c, double limit) {
  const auto rising = [&](double a) {
    const double inner = two_scales(law, a).inner, b = inner * a;
    const double in = mass(law, b), out = mass(law, a) - in;
    const double whole = cube_root(in * b * b) + cube_root(out * (a - b) * (a - b));
    const double slope =
        2.0 / 3 * cube_root(out / (a - b)) + 2.0 / 3 * density(law, a) * cube_root((a - b) * (a - b) / (out * out));
    return 12 * whole * whole * slope / (c * intervals * intervals) -
           4 * law.tail * power(a, 2 - law.exponent) / (law.exponent - 2);
  };
  return root_of_rising(rising, 1, limit);
}

unsigned inner_intervals(const PowerLaw& law, unsigned intervals, double threshold, double inner) {
  const Weights weights(law, threshold, inner);
  const double share = intervals * weights.in / (weights.in + weights.out);
  unsigned count = 1;
  while (count + 2 < intervals && share - count > (count + 2) - share) count += 2;
  return count;
}

std::vector<double> two_scale_levels(const PowerLaw& law, unsigned intervals, double threshold) {
  const double inner = two_scales(law, threshold).inner;
  const unsigned within = inner_intervals(law, intervals, threshold, inner);
  const unsigned outside = (intervals - within) / 2;
  const double edge = inner * threshold;
  std::vector<double> found;
  for (unsigned j = 1; j <= within; j += 2) found.push_back(edge * j / within);
  for (unsigned j = 1; j < outside; ++j) found.push_back(edge + (threshold - edge) * j / outside);
  found.push_back(threshold);
  return found;
}

}  // namespace gradcodec::power_law
