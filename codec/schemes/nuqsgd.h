// NUQSGD: levels 0, 2^-s, ..., 1/4, 1/2, 1 times the norm. spec/schemes/nuqsgd.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& nuqsgd_scheme();

}  // namespace gradcodec
