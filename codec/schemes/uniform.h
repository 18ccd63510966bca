// uniform: rounding to nearest, for contrast: biased.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& uniform_scheme();

}  // namespace gradcodec
