// What can be said of values once they are sorted: median, Laplace fit, tail, and the distance to both fits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "codec/checks/finding.h"

namespace gradcodec {

// What is not defined is kAbsent.
struct OrderStatistics {
  double median = kAbsent;          // of an even number of values, the mean of the two in the middle
  double laplace_scale = kAbsent;   // mean of |x - median|: with the median, the most likely Laplace distribution
  double tail_exponent = kAbsent;   // Hill's; absent without tail_count + 1 values, or if none passes the threshold
  uint64_t tail_count = 0;          // values that it is estimated from; 0 if it is absent
  double tail_threshold = kAbsent;  // the largest magnitude that is not among them
  double ks_laplace = kAbsent;      // Kolmogorov-Smirnov distance, two-sided; absent if the scale is 0
  double ks_normal = kAbsent;
};

// `sorted`: finite values, ascending, with their mean and population standard deviation (kAbsent: not known).
template <typename T>
OrderStatistics order_statistics(std::span<const T> sorted, double mean, double deviation);

// Hill 1975, "A simple general approach to inference about the tail of a distribution": k over the sum of
// ln(|x|_(i) / |x|_(k+1)) for the k = max(10, n / 100) largest magnitudes of n.
inline uint64_t tail_count_for(uint64_t n) { return n / 100 > 10 ? n / 100 : 10; }

double laplace_density(double x, double location, double scale);
double normal_density(double x, double mean, double deviation);

}  // namespace gradcodec
