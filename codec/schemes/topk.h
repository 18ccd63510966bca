// topk: the k elements of largest magnitude.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& topk_scheme();

}  // namespace gradcodec
