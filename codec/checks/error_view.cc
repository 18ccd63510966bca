// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/error_view.h"

#include <algorithm>
#include <cmath>

#include "codec/checks/resolution.h"

namespace gradcodec {
namespace {

// x - nearest integer, |x| < 2^51. The sum has no bits left for a fraction.
double fraction(double x) {
  constexpr double kShift = 0x1.8p52;
  return x - ((x + kShift) - kShift);
}

bool is_same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

void ErrorView::begin(bool dither) {
  dither_ = dither;
  sample_.fresh = true;
}

void ErrorView::load(const Trials& trials, uint64_t trial, Range range, bool whole_path) {
  trials.load(trial, range, whole_path, sample_);
  new_laws_ = !sample_.same_laws;
  if (new_laws_) refresh(range);
  const size_t n = error.size();
  const float* decoded = sample_.decoded.data();
  for (size_t i = 0; i < n; ++i) error[i] = static_cast<double>(decoded[i]) - expected_[i];
  if (dither_) {
    for (size_t i = 0; i < n; ++i) z[i] = fraction(static_cast<double>(decoded[i]) * inverse_step[i]);
  }
  for (const uint32_t i : special_) error[i] = 0;
  if (!dither_) {
    z = error;
  } else {
    for (const uint32_t i : special_) z[i] = 0;
  }
}

void ErrorView::refresh(Range range) {
  const auto n = static_cast<size_t>(range.count);
  for (std::vector<double>* array :
       {&error, &step, &variance, &eta, &z, &z_variance, &z_slack, &expected_, &inverse_step}) {
    array->resize(n);
  }
  special_.clear();
  sums_ = {};
  for (size_t i = 0; i < n; ++i) {
    set_law(i, sample_.laws[i]);
    count(i, sample_.laws[i], range);
  }
}

void ErrorView::set_law(size_t i, const Law& law) {
  const auto target = static_cast<double>(sample_.target[i]);
  const bool chance = law.kind == Law::two || law.kind == Law::uniform;
  const double s = chance ? law.hi - law.lo : 0;
  double mean = law.lo, sigma2 = 0;
  if (law.kind == Law::uniform) {
    mean = (law.lo + law.hi) / 2;
    sigma2 = s * s / 12;
  } else if (law.kind == Law::two) {
    mean = law.lo + law.f * s;
    sigma2 = s * s * law.f * (1 - law.f);
  }
  if (!chance) special_.push_back(static_cast<uint32_t>(i));
  expected_[i] = target + mean;
  step[i] = s;
  variance[i] = sigma2;
  eta[i] = resolution(target, s);
  inverse_step[i] = chance ? 1 / s : 0;
  z_variance[i] = dither_ ? (chance ? 1.0 / 12 : 0.0) : sigma2;
  z_slack[i] = dither_ ? eta[i] * inverse_step[i] : eta[i];
}

void ErrorView::count(size_t i, const Law& law, Range range) {
  const auto target = static_cast<double>(sample_.target[i]);
  const bool finite = std::isfinite(target);
  switch (law.kind) {
    case Law::none:
      ++sums_.unknown;
      break;
    case Law::outside:
      if (sums_.outside++ == 0) sums_.first_outside = range.first + i;
      if (finite) sums_.outside_norm2 += target * target;
      break;
    case Law::point:
      ++sums_.points;
      break;
    case Law::two:
      ++sums_.twos;
      break;
    case Law::uniform:
      ++sums_.uniforms;
      break;
  }
  if (finite) sums_.norm2 += target * target;
  const double sigma2 = variance[i], bias = expected_[i] - target;
  sums_.variance += sigma2;
  sums_.quartic += sigma2 * sigma2;
  if (finite && law.kind != Law::outside && law.kind != Law::none) sums_.bias2 += bias * bias;
  sums_.eta2 += eta[i] * eta[i];
  sums_.largest_step = std::max(sums_.largest_step, step[i]);
}

// Quickly, where all that has chance is uniform: the others' errors are 0 here.
bool ErrorView::any_beyond() const {
  const size_t n = error.size();
  int beyond = 0;
#pragma omp simd reduction(| : beyond)
  for (size_t i = 0; i < n; ++i) beyond |= std::fabs(error[i]) > step[i] / 2 + eta[i] ? 1 : 0;
  return beyond != 0;
}

std::optional<size_t> ErrorView::first_beyond_support() const {
  const size_t n = error.size();
  if (sums_.twos == 0 && sums_.points == 0 && !any_beyond()) return std::nullopt;
  for (size_t i = 0; i < n; ++i) {
    const Law& law = sample_.laws[i];
    const float target = sample_.target[i], decoded = sample_.decoded[i];
    bool inside = true;
    if (law.kind == Law::uniform) {
      inside = std::fabs(error[i]) <= step[i] / 2 + eta[i];
    } else if (law.kind == Law::two) {
      const double below = error[i] + law.f * step[i];  // 0 for lo, step for hi
      inside = std::min(std::fabs(below), std::fabs(below - step[i])) <= eta[i];
    } else if (law.kind == Law::point) {
      inside = is_same(decoded, law.lo == 0 ? target : static_cast<float>(static_cast<double>(target) + law.lo));
    }
    if (!inside) return i;
  }
  return std::nullopt;
}

}  // namespace gradcodec
