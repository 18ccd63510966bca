// The honest half-dithered quantizer: two-point rounding to multiples of max |x| / M, one draw an element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mutants/quantizer.h"

namespace gradcodec {

// Unbiased; variance sum step^2 f (1 - f), f the fraction of x / step; each error below a step.
inline const Scheme& half_dither_scheme() {
  static const Quantizer scheme("half-dither", Dither::half);
  return scheme;
}

}  // namespace gradcodec
