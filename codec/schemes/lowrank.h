// lowrank: the best matrix of low rank for a tensor, about; a prediction for another scheme to correct.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& lowrank_scheme();

}  // namespace gradcodec
