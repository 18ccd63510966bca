// Coder `model`: rANS by universal tables, of a value's scale and its dither. Where scheme and tensor say what scale
// each value is expected to have, nothing need be learnt: the decoder knows the law of q given the dither (Zamir and
// Feder, IEEE Trans. Inf. Theory 38, 1992), but for its kind. Streams without scales go as by `rans-dither`.
// spec/coders/model.md has the bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/coder.h"

namespace gradcodec {

const Coder& model_coder();

}  // namespace gradcodec
