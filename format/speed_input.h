// What speed is measured on: float32 values, as many as asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "format/dumps/source.h"

namespace gradcodec {

inline constexpr std::string_view kMadeInput =
    "(b0 + b1 + b2 + b3 - 510) v s, with b the bytes of one Philox word, v of another uniform on (0, 1), and s, which "
    "is 2^-11, 2^-12, 2^-13 or 2^-14, of each run of 4,096: peaked, with heavy tails, no zeros in a row";

// `size` values as kMadeInput says, of a fixed seed: the same on every machine.
std::vector<float> made_input(uint64_t size);

// How many values of float types a dump has; saturates.
uint64_t float_values(const Source& source);

// `size` values of the dump, of which there is one at least: its tensors of float types as float32, in its order, from
// the first again when they end. Throws what reading throws.
std::vector<float> dump_input(Source& source, uint64_t size);

}  // namespace gradcodec
