// AMQ: levels p^s, ..., p^2, p, with p fitted, times the norm. spec/schemes/amq.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& amq_scheme();

}  // namespace gradcodec
