// terngrad: stochastic rounding to three levels over the range of the tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& terngrad_scheme();

}  // namespace gradcodec
