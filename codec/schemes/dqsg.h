// dqsg: dithered quantization of stochastic gradients. 2M + 1 levels over the range of the values, subtractive dither.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& dqsg_scheme();

}  // namespace gradcodec
