// What messages add up to without being decoded (spec/aggregate.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

// Only aggregate encodes by it: `--scheme sum` is refused.
const Scheme& sum_scheme();

}  // namespace gradcodec
