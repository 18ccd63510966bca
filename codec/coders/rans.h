// Coders `rans` and `rans-dither`: interleaved range ANS with a static model a chunk; the second takes the dither as
// context (rate I(X; X + U) instead of H(q): Zamir and Feder, "On universal quantization by randomized uniform/lattice
// quantizers", IEEE Trans. Inf. Theory 38, 1992). spec/coders/rans.md has the bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/coder.h"

namespace gradcodec {

const Coder& rans_coder();
const Coder& rans_dither_coder();

}  // namespace gradcodec
