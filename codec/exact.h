// Regular float32 values as streams, exactly: for what a scheme keeps as it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "codec/scheme.h"

namespace gradcodec {

// Of `count` values: their highest bytes (sign and most of the exponent, which coders shorten) as symbols, and the
// three others as planes of plain bytes, the lowest first.
StreamShapes exact_shapes(uint64_t count);

void put_exact(std::span<const float> values, std::vector<Stream>& streams);

// The inverse, of streams of these shapes. Throws Error(bad_input) on a value that is not regular.
void take_exact(const std::vector<Stream>& streams, std::span<float> values);

}  // namespace gradcodec
