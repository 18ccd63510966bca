// tnqsgd: 2^bits levels, denser where values are, the largest values limited. spec/schemes/tnqsgd.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& tnqsgd_scheme();

}  // namespace gradcodec
