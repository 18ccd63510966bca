// threshold: the elements of at least a given magnitude.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& threshold_scheme();

}  // namespace gradcodec
