// Roots and minima of functions of one variable, without a tolerance that decides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace gradcodec {

// The least number from `low` to `high` where f, whose sign changes once, is not negative; `high` if it is everywhere.
// 0 <= low <= high, finite. Halves the bit patterns, which are ordered as the numbers are: 64 steps at most for any
// range, to the last bit.
template <typename Function>
double root_of_rising(Function f, double low, double high) {
  if (!(f(low) < 0)) return low;
  auto below = std::bit_cast<uint64_t>(low), above = std::bit_cast<uint64_t>(high);
  while (above - below > 1 && above > below) {
    const uint64_t middle = below + (above - below) / 2;
    (f(std::bit_cast<double>(middle)) < 0 ? below : above) = middle;
  }
  return std::bit_cast<double>(above);
}

// Where f, which falls and then rises between `low` and `high`, is least, to 10^-8 of their distance, by the golden
// section (to more no minimum can be told from its neighbours).
template <typename Function>
double place_of_least(Function f, double low, double high) {
  constexpr double kGolden = 0.6180339887498949;
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double at_left = f(left), at_right = f(right);
  for (int step = 0; step < 38; ++step) {
    if (at_left < at_right) {
      high = right;
      right = left;
      at_right = at_left;
      left = high - kGolden * (high - low);
      at_left = f(left);
    } else {
      low = left;
      left = right;
      at_left = at_right;
      right = low + kGolden * (high - low);
      at_right = f(right);
    }
  }
  return low + 0.5 * (high - low);
}

}  // namespace gradcodec
