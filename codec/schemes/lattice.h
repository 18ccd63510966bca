// lattice: subtractive dither of vectors of 2, 4 or 8 elements, rounded to the nearest point of A2, D4 or E8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& lattice_scheme();

}  // namespace gradcodec
