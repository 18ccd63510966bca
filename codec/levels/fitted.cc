// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/fitted.h"

#include <algorithm>
#include <cmath>

#include "codec/functions.h"
#include "codec/levels/table.h"

namespace gradcodec {
namespace {

constexpr unsigned kMostMoves = 400;  // of levels, in one descent
constexpr double kLeastGain = 0x1p-16;
constexpr double kApart = 1 + 0x1p-15;  // rounding to float32 leaves kLevelRatio
constexpr double kGoldenPart = 0.6180339887498949;

std::vector<double> uniform_levels(unsigned s) {
  std::vector<double> inner(s);
  for (unsigned j = 0; j < s; ++j) inner[j] = (j + 1.0) / (s + 1.0);
  return inner;
}

std::vector<double> quantile_levels(const MagnitudeLaw& law, unsigned s) {
  std::vector<double> inner(s);
  double low = 0;
  for (unsigned j = 0; j < s; ++j) low = inner[j] = law.quantile((j + 1.0) / (s + 1.0), low, 1, low + (1 - low) / 2);
  return inner;
}

// Many levels are best where their density is as the cube root of the law's (Bennett 1948; Panter and Dite 1951),
// which is taken at the middles of cells that are finer where the law's mass is.
std::vector<double> companded_levels(const MagnitudeLaw& law, unsigned s) {
  constexpr unsigned kCells = 256;
  std::vector<double> edges = quantile_levels(law, kCells / 2 - 1);
  for (unsigned j = 0; j <= kCells / 2; ++j) edges.push_back(2.0 * j / kCells);
  std::sort(edges.begin(), edges.end());
  std::vector<double> sums = {0};  // of the cube root, up to each edge
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    const double density = law.at(edges[i] + (edges[i + 1] - edges[i]) / 2).density;
    const double root = density > 0 ? functions::power(density, 1.0 / 3) : 0;
    sums.push_back(sums.back() + root * (edges[i + 1] - edges[i]));
  }
  std::vector<double> inner(s);
  for (unsigned j = 0; j < s; ++j) {
    const double sum = sums.back() * (j + 1.0) / (s + 1.0);
    const auto after = static_cast<size_t>(std::upper_bound(sums.begin() + 1, sums.end() - 1, sum) - sums.begin());
    const double part = (sum - sums[after - 1]) / (sums[after] - sums[after - 1]);
    inner[j] = edges[after - 1] + part * (edges[after] - edges[after - 1]);
  }
  return inner;
}

// Psi after the last sweep.
double descend_far(const MagnitudeLaw& law, std::vector<double>& inner) {
  double psi = expected_variance(law, inner);
  const size_t sweeps = std::clamp<size_t>(kMostMoves / inner.size(), 4, 100);
  for (size_t sweep = 0; sweep < sweeps; ++sweep) {
    const std::vector<double> before = inner;
    descend(law, inner);
    const double now = expected_variance(law, inner);
    if (!(now < psi)) {  // by rounding alone
      inner = before;
      return psi;
    }
    const double gain = psi - now;
    psi = now;
    if (gain < kLeastGain * psi) return psi;
  }
  return psi;
}

}  // namespace

double expected_variance(const MagnitudeLaw& law, std::span<const double> inner) {
  double sum = 0, low = 0;
  Cumulative to_low = law.at(0);
  const auto add_up_to = [&](double high) {
    const Cumulative to_high = law.at(high);
    sum += variance_between(low, to_low, high, to_high);
    low = high;
    to_low = to_high;
  };
  for (const double level : inner) add_up_to(level);
  add_up_to(1);
  return sum;
}

void descend(const MagnitudeLaw& law, std::span<double> inner) {
  double low = 0;
  Cumulative to_low = law.at(0);
  for (size_t j = 0; j < inner.size(); ++j) {
    const double high = j + 1 < inner.size() ? inner[j + 1] : 1;
    const Cumulative to_high = law.at(high);
    const double m0 = to_high.moment0 - to_low.moment0, m1 = to_high.moment1 - to_low.moment1;
    const double middle = low + (high - low) / 2;
    if (m0 > 0) {
      const double probability = to_high.moment0 - (m1 - low * m0) / (high - low);
      inner[j] = law.quantile(probability, low, high, inner[j] > low && inner[j] < high ? inner[j] : middle);
    }
    if (!(m0 > 0 && inner[j] > low && inner[j] < high)) inner[j] = middle;
    low = inner[j];
    to_low = law.at(low);
  }
}

std::vector<double> alq_levels(const MagnitudeLaw& law, unsigned s, std::span<const std::vector<double>> more) {
  std::vector<std::vector<double>> starts = {exponential_levels(s), uniform_levels(s), quantile_levels(law, s),
                                             companded_levels(law, s)};
  starts.insert(starts.end(), more.begin(), more.end());
  size_t best = 0;
  double least = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const double psi = descend_far(law, starts[i]);
    if (i == 0 || psi < least) best = i, least = psi;
  }
  return starts[best];
}

double amq_base(const MagnitudeLaw& law, unsigned s) {
  constexpr int kGrid = 64, kSections = 40;
  const double first = functions::power(2, -40.0 / s), last = 0.995, step = (last - first) / (kGrid - 1);
  const auto psi = [&](double base) { return expected_variance(law, powers(base, s)); };
  double best = first, least = psi(first);
  for (int i = 1; i < kGrid; ++i) {
    const double base = first + i * step, here = psi(base);
    if (here < least) best = base, least = here;
  }
  double low = std::max(first, best - step), high = std::min(last, best + step);
  double left = high - kGoldenPart * (high - low), right = low + kGoldenPart * (high - low);
  double at_left = psi(left), at_right = psi(right);
  for (int i = 0; i < kSections; ++i) {
    if (at_left <= at_right) {
      high = right, right = left, at_right = at_left;
      left = high - kGoldenPart * (high - low), at_left = psi(left);
    } else {
      low = left, left = right, at_left = at_right;
      right = low + kGoldenPart * (high - low), at_right = psi(right);
    }
  }
  const double found = at_left <= at_right ? left : right;
  return psi(found) < least ? found : best;
}

std::vector<double> powers(double base, unsigned s) {
  std::vector<double> inner(s);
  double power = 1;
  for (unsigned j = s; j-- > 0;) inner[j] = power *= base;
  return inner;
}

std::vector<double> exponential_levels(unsigned s) { return powers(0.5, s); }

std::vector<float> stored_magnitudes(std::span<const double> inner) {
  std::vector<double> levels(inner.begin(), inner.end());
  double least = static_cast<double>(kLeastInnerLevel);
  for (double& level : levels) {
    level = std::max(level, least);
    least = level * kApart;
  }
  double most = 1;
  for (size_t j = levels.size(); j-- > 0;) most = levels[j] = std::min(levels[j], most / kApart);
  std::vector<float> magnitudes(levels.begin(), levels.end());
  magnitudes.push_back(1);
  return magnitudes;
}

// Of values with r >= l_1, (r - lo)(hi - r) <= c r^2, c = (rho - 1)^2 / (4 rho); of those below, r (l_1 - r), and the
// sum of their r is at most sqrt(d) y if that of their r^2 is y^2. So the whole is at most c (1 - y^2) + A y - y^2 with
// A = l_1 sqrt(d), greatest at y = A / (2 (1 + c)) or at 1. Both rounded ratios are allowed for in rho and A.
double level_bound(std::span<const float> magnitudes, double d) {
  constexpr double kRounding = 1 + 0x1p-20;
  double rho = 1;
  for (size_t j = 1; j < magnitudes.size(); ++j) {
    rho = std::max(rho, static_cast<double>(magnitudes[j]) / static_cast<double>(magnitudes[j - 1]));
  }
  rho *= kRounding;
  const double c = (rho - 1) * (rho - 1) / (4 * rho);
  const double a = static_cast<double>(magnitudes.front()) * std::sqrt(d) * kRounding;
  return a <= 2 * (1 + c) ? c + a * a / (4 * (1 + c)) : a - 1;
}

}  // namespace gradcodec
