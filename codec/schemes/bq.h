// Binomial quantization for privacy: values are clipped, rounded at random to s + 1 levels, and binomial noise is added
// to the level's number. spec/schemes/bq.md is the definition, and says what is private under which assumptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& bq_scheme();

}  // namespace gradcodec
