// How near decoded values are to those that they stand for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "codec/checks/sum.h"

namespace gradcodec {

// Of x and its reconstruction x', over the pairs of which both are finite. What is not defined is absent: without such
// pairs, where a divisor is 0, and where squares would pass float64's range.
struct Reconstruction {
  uint64_t compared = 0;           // such pairs
  uint64_t nonfinite = 0;          // other pairs
  uint64_t nonfinite_changed = 0;  // of those, where x' is not what x is: NaN, or this infinity

  std::optional<double> nmse;            // ||x' - x||^2 / ||x||^2
  std::optional<double> cosine;          // <x', x> / (||x'|| ||x||)
  std::optional<double> bias;            // along x: <x' - x, x> / ||x||^2
  std::optional<double> psnr;            // 20 log10((max x - min x) / rmse), rmse = ||x' - x|| / sqrt(compared), in dB
  std::optional<double> max_error;       // largest |x' - x|, in the tensor's units
  uint64_t max_part = 0, max_index = 0;  // where that is first
};

// Sums over pairs that come in pieces; in float64, so that equal pieces in equal order give equal results.
class ReconstructionSums {
 public:
  // Two pieces of equal length. `first`: index of their first element, in the part (tensor) numbered `part`.
  void add(std::span<const double> x, std::span<const double> decoded, uint64_t part, uint64_t first);

  // What comes after.
  void merge(const ReconstructionSums& other);

  Reconstruction result() const;

 private:
  uint64_t compared_ = 0, nonfinite_ = 0, nonfinite_changed_ = 0;
  Sum errors_, squares_, decoded_squares_, products_;  // ||x' - x||^2, ||x||^2, ||x'||^2, <x' - x, x>
  double min_ = std::numeric_limits<double>::infinity(), max_ = -std::numeric_limits<double>::infinity();
  double max_decoded_ = 0;  // largest |x'|
  double max_error_ = -1;
  uint64_t max_part_ = 0, max_index_ = 0;
};

}  // namespace gradcodec
