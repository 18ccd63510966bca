// Steps that follow the scale of a value: D0 m(s / D0), with m chosen to spend the fewest bits for the same sum of
// squared errors. spec/line_scales.md has the table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "codec/model/line_scales.h"

namespace gradcodec {

// By how many sixteenths of an octave the step lies below D0, where the scale is `t` sixteenths above D0. It minimises
// R(s / D) + D^2 / (2 ln 2 D0^2), R the bits of a normal value of deviation s under dither of step D: the price of a
// bit is the same at all scales.
constexpr int32_t step_drop(int32_t t) {
  constexpr std::array<int32_t, 9> kUpTo = {6, -8, -15, -21, -25, -29, -33, -36, -39};  // where it is 1 more
  if (t < kUpTo.back()) return (-t - 13) / 3;
  int32_t drop = 0;
  for (const int32_t most : kUpTo) drop += t <= most ? 1 : 0;
  return drop;
}

// The step of each sum of line classes, from 2^-126: D0 2^(-step_drop / 16), one float32 product and a power of 2.
// `base` as LineScales::base, for D0, which is positive and at most 2^126.
using ClassSteps = std::array<float, LineScales::kSums>;
ClassSteps class_steps(float d0, int32_t base);

// Chooses D0 and the base of `scales` so that the squared errors of dither by these steps, summed over all elements
// that have a scale, are `nmse` times `squares`, which is positive.
float fit_class_steps(LineScales& scales, double squares, double nmse);

}  // namespace gradcodec
