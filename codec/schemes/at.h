// at: the values at places that both sides have already, as an index set; the answer in the second round of
// Sketched-SGD.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& at_scheme();

}  // namespace gradcodec
