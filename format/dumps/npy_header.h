// The header of an .npy array: what np.load accepts and np.save writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "codec/bytes.h"
#include "codec/tensor.h"

namespace gradcodec {

struct NpyHeader {
  uint64_t size = 0;  // bytes from the magic to the first element
  DType dtype;
  bool big_endian = false;  // words of dtype.word_size() bytes are to be swapped
  bool fortran_order = false;
  std::vector<uint64_t> shape;
};

// Longest header text that is read, in bytes. Plain arrays need some 700 at most (rank 32); the rest is padding.
inline constexpr uint64_t kMaxNpyHeaderText = uint64_t{1} << 20;

// Reads the header of an array that takes `size` bytes in all, header included. `read_next` fills its argument with the
// bytes that follow those it gave before, and is never asked to pass `size`. With `as_bf16`, V2 and u2 are bfloat16.
// The shape is only parsed: check_tensor_info and a comparison with `size` are the caller's.
// Throws Error: bad_input if it is no header that np.load takes; unsupported for objects, structures, versions other
// than 1.0, 2.0, 3.0 and element types that gradcodec does not know; limit if the text is over kMaxNpyHeaderText.
NpyHeader read_npy_header(uint64_t size, const std::function<void(std::span<std::byte>)>& read_next, bool as_bf16);

// The header, version 1.0, of a little-endian array in C order: a multiple of 64 bytes. `info` has passed
// check_tensor_info.
Bytes make_npy_header(const TensorInfo& info);

}  // namespace gradcodec
