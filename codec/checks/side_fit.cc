// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/side_fit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace gradcodec {
namespace {

constexpr unsigned kDropped = 17;  // bits of the mantissa: 64 classes an octave
constexpr size_t kClasses = (0x7F800000U >> kDropped) + 1;

size_t class_of(double distance) {
  const auto capped = static_cast<float>(std::min(distance, static_cast<double>(std::numeric_limits<float>::max())));
  return std::bit_cast<uint32_t>(capped) >> kDropped;
}

}  // namespace

void SideFit::add(const SideNeed& need, std::span<const float> x, std::span<const float> y,
                  std::span<const float> decoded, std::span<const Exception> exceptions) {
  if (counts_.empty()) counts_.resize(kClasses);
  const double limit = need.limit();
  double furthest = 0, largest_value = 0;
  size_t next = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (next < exceptions.size() && exceptions[next].index == i) {
      ++next;
      continue;
    }
    ++size_;
    if (need.step == 0) {
      ++counts_[0];
      continue;
    }
    const auto value = static_cast<double>(x[i]), side = static_cast<double>(side_value(y[i]));
    const double distance = std::fabs(value - side);
    furthest = std::max(furthest, distance);
    largest_value = std::max(largest_value, std::fabs(value));
    ++counts_[class_of(distance / limit)];
    beyond_ += distance > limit ? 1 : 0;
    wrong_ += need.is_right(value, side, static_cast<double>(decoded[i])) ? 0 : 1;
  }
  if (need.step == 0) return;
  alpha_ = need.alpha;
  largest_ = std::max(largest_, furthest / limit);
  least_rho_ = std::max(least_rho_, need.rho_for(furthest));
  rho_ = std::max(rho_, static_cast<double>(need.rho));
  set_range(need.rho * need.step, largest_value);
}

// All tensors have the same range, but for the rounding of their steps. Of chunks of one tensor the largest value
// counts, which has the smallest range.
void SideFit::set_range(double coarse_step, double largest_value) {
  if (largest_value == 0) return;
  const bool same = coarse_step == coarse_step_;
  if (coarse_step < coarse_step_ || (same && largest_value <= largest_value_)) return;
  coarse_step_ = coarse_step;
  largest_value_ = largest_value;
  range_ = coarse_step / largest_value;
}

void SideFit::merge(const SideFit& other) {
  size_ += other.size_;
  beyond_ += other.beyond_;
  wrong_ += other.wrong_;
  largest_ = std::max(largest_, other.largest_);
  least_rho_ = std::max(least_rho_, other.least_rho_);
  rho_ = std::max(rho_, other.rho_);
  if (other.rho_ > 0) alpha_ = other.alpha_;
  set_range(other.coarse_step_, other.largest_value_);
  if (other.counts_.empty()) return;
  counts_.resize(kClasses);
  for (size_t i = 0; i < kClasses; ++i) counts_[i] += other.counts_[i];
}

double SideFit::quantile(double p) const {
  if (size_ == 0) return 0;
  const auto wanted = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(p * static_cast<double>(size_))));
  uint64_t below = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    if (below < wanted) continue;
    if (i == 0) return 0;
    const auto top = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>((i + 1) << kDropped)));
    return std::min(top, largest_);
  }
  return largest_;
}

}  // namespace gradcodec
