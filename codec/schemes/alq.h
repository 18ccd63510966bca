// ALQ: levels by coordinate descent, times the norm. spec/schemes/alq.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& alq_scheme();

}  // namespace gradcodec
