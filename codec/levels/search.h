// Roots and minima of functions of one variable. As many steps for every function, so that no tolerance decides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gradcodec {

// Where f changes its sign from negative to positive between `low` and `high`, to the last bit or two, by halving; an
// end, if it does not change there.
template <typename Function>
double root_of_rising(Function f, double low, double high) {
  for (int step = 0; step < 64; ++step) {
    const double middle = low + 0.5 * (high - low);
    (f(middle) < 0 ? low : high) = middle;
  }
  return low + 0.5 * (high - low);
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
