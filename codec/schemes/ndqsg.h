// ndqsg: nested dithered quantization of stochastic gradients. dqsg, of whose integers only the rest modulo rho is
// sent; the decoder finds the integer by side information that is near the values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& ndqsg_scheme();

}  // namespace gradcodec
