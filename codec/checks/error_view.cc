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
  next_special_ = 0;
  if (new_laws_) refresh(range);
}

void ErrorView::compute(Block block) {
  const float* decoded = sample_.decoded.data() + block.first;
  const double* expected = expected_.data() + block.first;
  const double* inverse = inverse_step.data() + block.first;
  double* e = error.data() + block.first;
  double* of_z = z.data() + block.first;
  if (dither_) {
    for (size_t i = 0; i < block.count; ++i) {
      const auto value = static_cast<double>(decoded[i]);
      e[i] = value - expected[i];
      of_z[i] = fraction(value * inverse[i]);
    }
  } else {
    for (size_t i = 0; i < block.count; ++i) of_z[i] = e[i] = static_cast<double>(decoded[i]) - expected[i];
  }
  for (; next_special_ < special_.size() && special_[next_special_] < block.first + block.count; ++next_special_) {
    error[special_[next_special_]] = z[special_[next_special_]] = 0;
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
    add_to_sums(i, range);
  }
}

void ErrorView::set_law(size_t i, const Law& law) {
  const auto target = static_cast<double>(sample_.target[i]);
  const bool uniform = law.kind == Law::uniform;
  if (!uniform && law.kind != Law::two && law.kind != Law::cell) {
    special_.push_back(static_cast<uint32_t>(i));
    expected_[i] = target + law.lo;
    step[i] = variance[i] = eta[i] = inverse_step[i] = z_variance[i] = z_slack[i] = 0;
    return;
  }
  // Most elements have the width of the one before.
  const double s = law.width();
  step[i] = s;
  inverse_step[i] = i > 0 && step[i - 1] == s ? inverse_step[i - 1] : 1 / s;
  expected_[i] = target + (uniform ? (law.lo + law.hi) / 2 : law.lo + law.f * s);
  variance[i] = uniform ? s * s / 12 : s * s * law.f * (1 - law.f);
  if (law.kind == Law::cell) {
    expected_[i] = target;
    variance[i] = law.f;
  }
  eta[i] = resolution(target, s);
  z_variance[i] = dither_ ? 1.0 / 12 : variance[i];
  z_slack[i] = dither_ ? eta[i] * inverse_step[i] : eta[i];
}

void ErrorView::add_to_sums(size_t i, Range range) {
  const auto target = static_cast<double>(sample_.target[i]);
  const Law::Kind kind = sample_.laws[i].kind;
  const double energy = std::isfinite(target) ? target * target : 0;
  sums_.norm2 += energy;
  if (kind == Law::outside || kind == Law::none) {
    if (kind == Law::outside && sums_.outside == 0) sums_.first_outside = range.first + i;
    ++(kind == Law::none ? sums_.unknown : sums_.outside);
    sums_.outside_norm2 += energy;
    return;
  }
  ++(kind == Law::uniform ? sums_.uniforms
     : kind == Law::two   ? sums_.twos
     : kind == Law::cell  ? sums_.cells
                          : sums_.points);
  const double sigma2 = variance[i], bias = std::isfinite(target) ? expected_[i] - target : 0;
  sums_.variance += sigma2;
  sums_.quartic += sigma2 * sigma2;
  sums_.largest_variance = std::max(sums_.largest_variance, sigma2);
  sums_.bias2 += bias * bias;
  sums_.eta2 += eta[i] * eta[i];
  sums_.largest_step = std::max(sums_.largest_step, step[i]);
}

// Quickly, where all that has chance is uniform: the others' errors are 0 here.
bool ErrorView::any_beyond(Block block) const {
  int beyond = 0;
#pragma omp simd reduction(| : beyond)
  for (size_t i = block.first; i < block.first + block.count; ++i)
    beyond |= std::fabs(error[i]) <= step[i] / 2 + eta[i] ? 0 : 1;  // NaN is beyond
  return beyond != 0;
}

// Whether what is there of its vector's error is no longer than the covering radius. Blocks hold whole vectors.
bool ErrorView::is_in_cell(size_t i) const {
  const Law& law = sample_.laws[i];
  const size_t first = i - law.place, end = std::min(sample_.laws.size(), first + law.dimension);
  double squares = 0, allowed = law.hi;
  for (size_t j = first; j < end; ++j) {
    if (sample_.laws[j].kind != Law::cell) continue;
    squares += error[j] * error[j];
    allowed += eta[j];
  }
  return squares <= allowed * allowed;  // NaN is not
}

std::optional<size_t> ErrorView::first_beyond_support(Block block) const {
  const bool all_uniform = sums_.uniform() && sums_.points == 0 && sums_.outside == 0;
  if (all_uniform && !any_beyond(block)) return std::nullopt;
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    const Law& law = sample_.laws[i];
    const float target = sample_.target[i], decoded = sample_.decoded[i];
    bool inside = true;
    if (law.kind == Law::uniform) {
      inside = std::fabs(error[i]) <= step[i] / 2 + eta[i];
    } else if (law.kind == Law::two) {
      const double below = error[i] + law.f * step[i];  // 0 for lo, step for hi
      inside = std::min(std::fabs(below), std::fabs(below - step[i])) <= eta[i];
    } else if (law.kind == Law::cell) {
      inside = is_in_cell(i);
    } else if (law.kind == Law::outside) {
      inside = std::isfinite(target);  // else it could only be kept as it is
    } else if (law.kind == Law::point) {
      inside = is_same(decoded, law.lo == 0 ? target : static_cast<float>(static_cast<double>(target) + law.lo));
    }
    if (!inside) return i;
  }
  return std::nullopt;
}

}  // namespace gradcodec
