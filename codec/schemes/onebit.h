// onebit: the signs, decoded to the mean of the positive and the mean of the negative values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& onebit_scheme();

}  // namespace gradcodec
