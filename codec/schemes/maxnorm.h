// maxnorm: stochastic rounding over a range that workers may share, so that symbols can be summed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& maxnorm_scheme();

}  // namespace gradcodec
