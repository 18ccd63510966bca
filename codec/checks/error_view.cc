// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/error_view.h"

#include <algorithm>
#include <cmath>

#include "codec/checks/law_numbers.h"
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
  const size_t n = sample_.target.size();
  for (std::vector<double>* array :
       {&error, &step, &variance, &tail, &eta, &z, &z_variance, &z_slack, &expected_, &inverse_step}) {
    array->resize(n);
  }
  special_.clear();
  sums_ = {};
  for (size_t i = 0; i < n; ++i) {
    set_law(i, sample_.laws[i]);
    add_to_sums(i, range);
  }
  vectors_.clear();
  if (sums_.cells > 0) find_vectors();
}

void ErrorView::set_law(size_t i, const Law& law) {
  const auto target = static_cast<double>(sample_.target[i]);
  if (!has_chance(law.kind)) {
    const bool unknown = law.kind == Law::none;
    if (!unknown || !std::isfinite(target)) special_.push_back(static_cast<uint32_t>(i));
    expected_[i] = unknown ? target : target + law.lo;
    step[i] = variance[i] = tail[i] = eta[i] = inverse_step[i] = z_variance[i] = z_slack[i] = 0;
    return;
  }
  const LawNumbers numbers = numbers_of(law);
  const double s = numbers.step;
  step[i] = s;
  inverse_step[i] = i > 0 && step[i - 1] == s ? inverse_step[i - 1] : 1 / s;  // most have the width of the one before
  expected_[i] = target + numbers.mean;
  variance[i] = numbers.variance;
  tail[i] = numbers.tail;
  const bool whole = law.kind == Law::sum || law.kind == Law::cell;  // parts of it are smaller than it
  eta[i] = resolution(target, whole ? 2 * numbers.reach : s);
  z_variance[i] = dither_ ? 1.0 / 12 : numbers.variance;
  z_slack[i] = dither_ ? eta[i] * inverse_step[i] : eta[i];
}

// The coordinates of a vector are computed from each other: each may be off by what the largest may.
void ErrorView::find_vectors() {
  double number = -1;
  for (size_t i = 0; i < step.size(); ++i) {
    if (kind(i) != Law::cell) continue;
    if (sample_.laws[i].lo != number) vectors_.push_back({i, 0});
    number = sample_.laws[i].lo;
    vectors_.back().count = i + 1 - vectors_.back().first;
  }
  for (const Block& vector : vectors_) {
    double largest = 0;
    const size_t end = vector.first + vector.count;
    for (size_t i = vector.first; i < end; ++i) largest = std::max(largest, kind(i) == Law::cell ? eta[i] : 0);
    for (size_t i = vector.first; i < end; ++i) {
      if (kind(i) == Law::cell) eta[i] = z_slack[i] = largest;
    }
    sums_.longest_vector = std::max<uint64_t>(sums_.longest_vector, vector.count);
  }
}

ErrorView::Length ErrorView::length_of(Block vector) const {
  Length out;
  for (size_t i = vector.first; i < vector.first + vector.count; ++i) {
    if (kind(i) != Law::cell) continue;
    out.error += error[i] * error[i];
    out.eta += eta[i] * eta[i];
  }
  return {std::sqrt(out.error), std::sqrt(out.eta)};
}

void ErrorView::add_to_sums(size_t i, Range range) {
  const Law& law = sample_.laws[i];
  const auto target = static_cast<double>(sample_.target[i]);
  const Law::Kind kind = law.kind;
  const double energy = std::isfinite(target) ? target * target : 0;
  sums_.norm2 += energy;
  if (kind == Law::outside || kind == Law::none) {
    if (kind == Law::outside && sums_.outside == 0) sums_.first_outside = range.first + i;
    ++(kind == Law::none ? sums_.unknown : sums_.outside);
    sums_.outside_norm2 += energy;
    return;
  }
  const double sigma2 = variance[i], bias = std::isfinite(target) ? expected_[i] - target : 0;
  double reach = 0;
  switch (kind) {
    case Law::uniform:
      ++sums_.uniforms;
      reach = step[i] / 2;
      break;
    case Law::two:
      ++sums_.twos;
      reach = std::max(law.f, 1 - law.f) * step[i];
      break;
    case Law::point:
      ++sums_.points;
      break;
    default:
      ++(kind == Law::subset ? sums_.subsets : kind == Law::sum ? sums_.sums : sums_.cells);
      if (kind == Law::subset) sums_.largest_part = std::max(sums_.largest_part, law.f);
      reach = numbers_of(law).reach;
  }
  sums_.variance += sigma2;
  sums_.quartic += sigma2 * sigma2;
  sums_.penalty += sigma2 * tail[i];
  sums_.largest_variance = std::max(sums_.largest_variance, sigma2);
  sums_.largest_tail = std::max(sums_.largest_tail, tail[i]);
  sums_.bias2 += bias * bias;
  sums_.eta2 += eta[i] * eta[i];
  sums_.largest_error = std::max(sums_.largest_error, std::fabs(bias) + reach);
  if (step[i] == 0) return;
  const bool counted = kind == Law::two || kind == Law::subset;  // may be always the one or the other
  const double shift = counted ? 1 : kind == Law::uniform ? 0.5 : reach * inverse_step[i];
  sums_.largest_shift = std::max(sums_.largest_shift, shift);
}

void LawSums::add(const LawSums& other) {
  points += other.points;
  twos += other.twos;
  uniforms += other.uniforms;
  subsets += other.subsets;
  sums += other.sums;
  cells += other.cells;
  outside += other.outside;
  unknown += other.unknown;
  if (!first_outside) first_outside = other.first_outside;
  norm2 += other.norm2;
  outside_norm2 += other.outside_norm2;
  variance += other.variance;
  quartic += other.quartic;
  penalty += other.penalty;
  bias2 += other.bias2;
  eta2 += other.eta2;
  largest_variance = std::max(largest_variance, other.largest_variance);
  largest_tail = std::max(largest_tail, other.largest_tail);
  largest_error = std::max(largest_error, other.largest_error);
  largest_shift = std::max(largest_shift, other.largest_shift);
  largest_part = std::max(largest_part, other.largest_part);
  longest_vector = std::max(longest_vector, other.longest_vector);
}

// Quickly, where all that has chance is uniform: the others' errors are 0 here.
bool ErrorView::any_beyond(Block block) const {
  int beyond = 0;
#pragma omp simd reduction(| : beyond)
  for (size_t i = block.first; i < block.first + block.count; ++i)
    beyond |= std::fabs(error[i]) <= step[i] / 2 + eta[i] ? 0 : 1;  // NaN is beyond
  return beyond != 0;
}

std::optional<size_t> ErrorView::first_beyond_support(Block block) const {
  const bool all_uniform = sums_.uniforms == step.size();
  if (all_uniform && !any_beyond(block)) return std::nullopt;
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    if (!inside(i)) return i;
  }
  const auto ends_before = [](const Block& vector, size_t place) { return vector.first + vector.count <= place; };
  auto vector = std::lower_bound(vectors_.begin(), vectors_.end(), block.first, ends_before);
  for (; vector != vectors_.end() && ends_before(*vector, block.first + block.count); ++vector) {
    const size_t last = vector->first + vector->count - 1;
    const Length length = length_of(*vector);
    if (!(length.error <= sample_.laws[last].hi + length.eta)) return last;
  }
  return std::nullopt;
}

bool ErrorView::inside(size_t i) const {
  const Law& law = sample_.laws[i];
  const float target = sample_.target[i], decoded = sample_.decoded[i];
  const auto x = static_cast<double>(target), value = static_cast<double>(decoded);
  switch (law.kind) {
    case Law::none:
      return true;
    case Law::outside:
      return std::isfinite(target);  // else it could only be kept as it is
    case Law::point:
      // What the law was computed from rounds as a float64 does, where the error is far smaller than the target.
      return is_same(decoded, law.lo == 0 ? target : static_cast<float>(x + law.lo)) ||
             (law.lo != 0 && std::fabs(value - x - law.lo) <= 0x1p-52 * std::fabs(x));
    case Law::uniform:
      return std::fabs(error[i]) <= step[i] / 2 + eta[i];
    case Law::two:
    case Law::subset: {
      const double s = law.hi - law.lo, above = error[i] + law.f * s;  // 0 for lo, s for hi
      return std::min(std::fabs(above), std::fabs(above - s)) <= eta[i];
    }
    case Law::sum: {
      const double steps = (error[i] + law.f * step[i]) / step[i] + law.count / 2.0;  // 0 to count + 1, whole
      const double near = std::clamp(std::nearbyint(steps), 0.0, law.count + 1.0);
      return std::fabs(steps - near) * step[i] <= eta[i];
    }
    case Law::cell:
      return true;  // a vector at a time
  }
  return false;
}

}  // namespace gradcodec
