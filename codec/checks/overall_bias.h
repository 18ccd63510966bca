// Test 1, the bias overall: its e-processes' lambdas, and what it can find. spec/verify.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace gradcodec {

// Lambdas as multiples of the one that is best for an honest run just at the threshold. The small one is for tensors of
// few elements, where a bias makes P grow. Each has a process for D and one for -D: workers whose errors oppose each
// other are not independent either.
inline constexpr std::array<double, 4> kOverallMultiples = {0.125, 0.5, 1, 2};

// multiple j sqrt(2 ln(8 / level) / P), P = V4 R (R - 1) / 2 being what an honest run expects.
double overall_lambda(size_t j, double trials, double quartic, double level);

// What the power of the test depends on.
struct OverallSetting {
  double trials = 0, level = 0;
  double quartic = 0, largest_variance = 0;  // V4; largest sigma^2
  double slack = 0, largest = 0;             // of ErrorSums, at `trials`
  bool uniform = false;
};

// The smallest |U| that an honest P lets be called broken.
double overall_threshold(const OverallSetting& setting);

// The squared norm of a bias that is found nine times in ten, about: also where it sits in the elements of the largest
// variance, so that P grows by largest_variance |b|^2 R^3 / 3. Infinite if none is.
double overall_smallest(const OverallSetting& setting);

// The fewest trials, up to `most`, at which that is at most `margin`; `most` + 1 if there are none. What eta may add
// grows as R^1.5, sums as R^0.5.
double overall_trials(OverallSetting setting, double margin, double most);

}  // namespace gradcodec
