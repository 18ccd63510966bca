// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/moments.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "codec/checks/finding.h"

namespace gradcodec {
namespace {

double or_absent(double value) { return std::isfinite(value) ? value : kAbsent; }

}  // namespace

template <typename T>
void Moments::count(std::span<const T> x) {
  for (const T element : x) {
    const auto value = static_cast<double>(element);
    if (!std::isfinite(value)) {
      ++nonfinite_;
      continue;
    }
    zeros_ += value == 0 ? 1 : 0;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    sum_.add(value);
    magnitudes_.add(std::fabs(value));
    squares_.add(value * value);
  }
  finite_ = x.size() - nonfinite_;
}

template <typename T>
void Moments::add(std::span<const T> x) {
  Moments chunk;
  chunk.count(x);
  if (chunk.finite_ > 0) {
    chunk.center_ = chunk.mean();
    double m1 = 0;
    for (const T element : x) {
      const auto value = static_cast<double>(element);
      if (!std::isfinite(value)) continue;
      const double d = value - chunk.center_, square = d * d;
      m1 += d;
      chunk.m2_ += square;
      chunk.m3_ += square * d;
      chunk.m4_ += square * square;
    }
    chunk.center_low_ = m1 / static_cast<double>(chunk.finite_);
    chunk.shift_to_mean();
  }
  merge(chunk);
}

// From sums about center_ to sums about center_ + center_low_, which is the mean more exactly.
void Moments::shift_to_mean() {
  const auto n = static_cast<double>(finite_);
  const double e = center_low_, e2 = e * e;
  m4_ += -4 * e * m3_ + 6 * e2 * m2_ - 3 * n * e2 * e2;
  m3_ += -3 * e * m2_ + 2 * n * e2 * e;
  m2_ = std::max(0.0, m2_ - n * e2);
}

void Moments::merge(const Moments& other) {
  const auto na = static_cast<double>(finite_), nb = static_cast<double>(other.finite_), n = na + nb;
  finite_ += other.finite_;
  nonfinite_ += other.nonfinite_;
  zeros_ += other.zeros_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_.merge(other.sum_);
  magnitudes_.merge(other.magnitudes_);
  squares_.merge(other.squares_);
  if (nb == 0) return;
  if (na == 0) {  // as it is: a sum with a center of 0 would round it
    std::tie(center_, center_low_) = std::pair(other.center_, other.center_low_);
    std::tie(m2_, m3_, m4_) = std::tuple(other.m2_, other.m3_, other.m4_);
    return;
  }
  const double d = (other.center_ - center_) + (other.center_low_ - center_low_), d2 = d * d;
  m4_ += other.m4_ + d2 * d2 * (na / n) * (nb / n) * ((na * na - na * nb + nb * nb) / n) +
         6 * d2 * ((na / n) * (na / n) * other.m2_ + (nb / n) * (nb / n) * m2_) +
         4 * d * ((na / n) * other.m3_ - (nb / n) * m3_);
  m3_ += other.m3_ + d2 * d * (na / n) * (na - nb) * (nb / n) + 3 * d * ((na / n) * other.m2_ - (nb / n) * m2_);
  m2_ += other.m2_ + d2 * na * (nb / n);
  const double step = center_low_ + d * (nb / n), center = center_ + step;
  center_low_ = step - (center - center_);
  center_ = center;
}

bool Moments::in_range() const {
  const double largest = norm_inf();
  return largest == 0 || (largest > 0x1p-200 && largest < 0x1p200);
}

double Moments::min() const { return finite_ == 0 ? kAbsent : min_; }
double Moments::max() const { return finite_ == 0 ? kAbsent : max_; }
double Moments::norm1() const { return or_absent(magnitudes_.value()); }
double Moments::norm2() const { return in_range() ? std::sqrt(squares_.value()) : kAbsent; }
double Moments::norm_inf() const { return finite_ == 0 ? 0 : std::max(std::fabs(min_), std::fabs(max_)); }

double Moments::mean() const {
  if (finite_ == 0) return kAbsent;
  return min_ == max_ ? min_ : or_absent(sum_.value() / static_cast<double>(finite_));
}

double Moments::variance() const {
  if (finite_ == 0) return kAbsent;
  if (min_ == max_) return 0;
  return in_range() ? m2_ / static_cast<double>(finite_) : kAbsent;
}

double Moments::deviation() const { return std::sqrt(variance()); }

double Moments::kurtosis() const {
  const double m2 = variance();
  return m2 > 0 ? or_absent(m4_ / static_cast<double>(finite_) / (m2 * m2)) : kAbsent;
}

template void Moments::add(std::span<const float> x);
template void Moments::add(std::span<const double> x);

}  // namespace gradcodec
