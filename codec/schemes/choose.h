// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

// For each tensor the dithered quantizer whose exact variance and expected cost are best: with or without subtraction,
// a step for the tensor, a row or a bucket. spec/schemes/choose.md.
const Scheme& choose_scheme();

}  // namespace gradcodec
