// grid: stochastic rounding to multiples of a given step, so that the variance has an absolute bound.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& grid_scheme();

}  // namespace gradcodec
