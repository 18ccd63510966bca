// tbqsgd: 2^bits levels with two spacings, the largest values limited. spec/schemes/tbqsgd.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& tbqsgd_scheme();

}  // namespace gradcodec
