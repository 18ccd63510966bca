// natural: stochastic rounding to powers of two.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& natural_scheme();

}  // namespace gradcodec
