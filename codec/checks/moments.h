// Counts, norms and central moments of values, chunk by chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "codec/checks/sum.h"

namespace gradcodec {

// Values that are not finite are counted, and in nothing else. Results depend on how the values are cut into chunks and
// on the order of merges (by 1e-13 or so), and on nothing else. What is not defined is kAbsent.
class Moments {
 public:
  // Takes one chunk: its moments about its own mean, then merged. T is float or double.
  template <typename T>
  void add(std::span<const T> x);

  // Pébay 2008, "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical
  // moments" (Sandia SAND2008-6212), equations 2.1 to 2.3 for two sets.
  void merge(const Moments& other);

  uint64_t size() const { return finite_ + nonfinite_; }
  uint64_t finite() const { return finite_; }
  uint64_t nonfinite() const { return nonfinite_; }
  uint64_t zeros() const { return zeros_; }
  double min() const;  // absent without finite values, as max and what follows the norms
  double max() const;
  double norm1() const;     // sum of |x|; absent beyond float64
  double norm2() const;     // 0 without values
  double norm_inf() const;  // largest |x|
  double mean() const;
  double variance() const;   // population: divisor n
  double deviation() const;  // its root
  double kurtosis() const;   // m4 / m2^2: 3 for a normal distribution; absent if all values are equal

 private:
  template <typename T>
  void count(std::span<const T> x);
  void shift_to_mean();
  bool in_range() const;  // whether fourth powers are far from the ends of float64

  uint64_t finite_ = 0, nonfinite_ = 0, zeros_ = 0;
  double min_ = std::numeric_limits<double>::infinity(), max_ = -std::numeric_limits<double>::infinity();
  Sum sum_, magnitudes_, squares_;
  double center_ = 0, center_low_ = 0;  // the mean, in two parts
  double m2_ = 0, m3_ = 0, m4_ = 0;     // sums of powers of x - mean
};

}  // namespace gradcodec
