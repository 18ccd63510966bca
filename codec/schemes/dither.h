// dither: subtractive dither with its step chosen for the error instead of the range.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& dither_scheme();

}  // namespace gradcodec
