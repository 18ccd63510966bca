// mask: where a tensor is not 0, and nothing else of it; what index sets are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& mask_scheme();

}  // namespace gradcodec
