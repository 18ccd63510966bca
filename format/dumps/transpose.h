// Fortran order to C order, for arrays larger than memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "format/files.h"

namespace gradcodec {

// The memory that to_c_order takes, in bytes: two buffers, each large enough for one element of any type. Two make
// 48 MiB, and a square tile of float32 has rows of 10 kB on both sides.
inline constexpr uint64_t kTransposeBuffer = uint64_t{24} << 20;

// Whether Fortran and C order of this shape differ: two dimensions over 1, none of 0.
bool order_matters(std::span<const uint64_t> shape);

// Copies the elements of `item_size` bytes (at most kTransposeBuffer) that lie in `file` from byte `offset` in Fortran
// order to a temporary file, in C order, unchanged. order_matters(shape) is true, and the array's size in bytes is
// below 2^63. Throws Error: bad_input if the file ends too early, io.
std::shared_ptr<RandomFile> to_c_order(const RandomFile& file, uint64_t offset, std::span<const uint64_t> shape,
                                       uint64_t item_size);

}  // namespace gradcodec
