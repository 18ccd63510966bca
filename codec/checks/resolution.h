// What float32 arithmetic may add to an error whose law is known; spec/verify.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace gradcodec {

// For a value x rounded with a step (0: exactly kept): the grid of the draw, one division, and the decoder's
// subtraction and multiplication in float32. Never tested, only allowed for: each null hypothesis is the declared law
// shifted by at most this.
inline double resolution(double x, double step) {
  if (step == 0) return 0;
  const double size = std::fabs(x);
  return step * 0x1p-23 + size * 0x1p-24 + 0x1p-23 * (size + step);
}

}  // namespace gradcodec
