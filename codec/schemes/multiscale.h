// multiscale: maxnorm with a finer step where a value is small enough for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& multiscale_scheme();

}  // namespace gradcodec
