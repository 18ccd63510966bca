// Inner products of vectors that come in pieces, and cosines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <span>

#include "codec/checks/finding.h"
#include "codec/checks/sum.h"

namespace gradcodec {

// Of two pieces of equal length, in float64, eight partial sums. Values that are not finite count as zero.
template <typename T>
double inner_product(std::span<const T> a, std::span<const T> b) {
  double sums[8] = {};
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    if (std::isfinite(x) && std::isfinite(y)) sums[i % 8] += x * y;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// What the cosine of a pair of vectors is made of.
struct PairSums {
  Sum ab, aa, bb;

  // Absent if either vector is zero, or squares pass float64.
  double cosine() const {
    const double lengths = std::sqrt(aa.value()) * std::sqrt(bb.value());
    const double cosine = lengths > 0 ? ab.value() / lengths : kAbsent;
    return std::isfinite(cosine) ? cosine : kAbsent;
  }
};

}  // namespace gradcodec
