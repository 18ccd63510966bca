// a+b: b codes what a leaves. Not a scheme that a text can name: the '+' between two others. spec/schemes/plus.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

// Of a text a+b+c, which is (a+b)+c: SchemeChoice::inner is what stands before the last '+', SchemeChoice::rest the
// part behind it. Prepare throws Error(usage), and restore Error(bad_input), if the encoder does not know what a part
// decodes to.
const Scheme& plus_scheme();

}  // namespace gradcodec
