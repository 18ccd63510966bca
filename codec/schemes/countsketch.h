// countsketch: a linear table in place of the tensor, which decodes to an estimate of each element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& countsketch_scheme();

}  // namespace gradcodec
