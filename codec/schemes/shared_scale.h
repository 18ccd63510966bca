// The scale of a tensor, or the one that all workers of a step agreed on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codec/number_text.h"
#include "codec/scan.h"
#include "codec/scheme.h"

namespace gradcodec {

// inputs.shared_scale if there is one, else the largest magnitude. Throws Error(bad_input) if a value is beyond the
// shared one, which would have to be clipped.
inline float scale_of(const Extent& extent, const Inputs& inputs) {
  if (!inputs.shared_scale) return extent.max;
  if (*inputs.shared_scale >= extent.max) return *inputs.shared_scale;
  throw Error(Exit::bad_input, "its largest magnitude, " + number_text(extent.max) + ", is beyond the shared scale " +
                                   number_text(*inputs.shared_scale) + ": share the largest of all workers");
}

}  // namespace gradcodec
