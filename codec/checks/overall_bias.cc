// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/overall_bias.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "codec/checks/tails.h"

namespace gradcodec {
namespace {

constexpr double kProcesses = 2.0 * kOverallMultiples.size();

double honest_p(double trials, double quartic) { return trials * (trials - 1) / 2 * quartic; }

double h_of(const OverallSetting& s, double lambda) { return s.uniform ? 0.5 : bennett_h(lambda * s.largest); }

// U is 2 D / (R (R - 1)), D the sum of <S, e> over all trials.
double pairs_of(const OverallSetting& s) { return s.trials * (s.trials - 1) / 2; }

// D - H must reach this, P given, for the process of this lambda alone to reach 8 / level.
double needed_d(const OverallSetting& s, double lambda, double p) {
  return std::log(kProcesses / s.level) / lambda + lambda * p * h_of(s, lambda) + s.slack;
}

}  // namespace

double overall_lambda(size_t j, double trials, double quartic, double level) {
  return kOverallMultiples[j] * std::sqrt(2 * std::log(kProcesses / level) / honest_p(trials, quartic));
}

double overall_threshold(const OverallSetting& s) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t j = 0; j < kOverallMultiples.size(); ++j) {
    const double lambda = overall_lambda(j, s.trials, s.quartic, s.level);
    least = std::min(least, needed_d(s, lambda, honest_p(s.trials, s.quartic)));
  }
  return least / pairs_of(s);
}

double overall_smallest(const OverallSetting& s) {
  double least = std::numeric_limits<double>::infinity();
  const double p = honest_p(s.trials, s.quartic);
  const double growth = s.largest_variance * s.trials * s.trials * s.trials / 3;  // of P with |b|^2
  for (size_t j = 0; j < kOverallMultiples.size(); ++j) {
    const double lambda = overall_lambda(j, s.trials, s.quartic, s.level);
    // With y = sqrt(P): pairs |b|^2 = needed_d(P) + 1.3 y, |b|^2 = (y^2 - p) / growth, is a y^2 - 1.3 y - c = 0.
    const double a = pairs_of(s) / growth - lambda * h_of(s, lambda);
    const double c = needed_d(s, lambda, 0) + p * pairs_of(s) / growth;
    if (!(a > 0)) continue;
    const double y = (kPower + std::sqrt(kPower * kPower + 4 * a * c)) / (2 * a);
    least = std::min(least, (y * y - p) / growth);
  }
  return least;
}

double overall_trials(OverallSetting setting, double margin, double most) {
  const double slack = setting.slack / std::pow(setting.trials, 1.5),
               largest = setting.largest / std::sqrt(setting.trials);
  const auto enough = [&](double trials) {
    setting.trials = trials;
    setting.slack = slack * std::pow(trials, 1.5);
    setting.largest = largest * std::sqrt(trials);
    return overall_smallest(setting) <= margin;
  };
  if (!enough(most)) return most + 1;
  double low = 2, high = most;  // more trials find less and less
  while (high - low > 1) {
    const double middle = std::floor((low + high) / 2);
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace gradcodec
