// tqsgd: 2^bits equally spaced levels, the largest values limited. spec/schemes/tqsgd.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& tqsgd_scheme();

}  // namespace gradcodec
