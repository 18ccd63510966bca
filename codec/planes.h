// Byte planes: all lowest bytes of the words of a chunk, then all second bytes, and so on, which a general-purpose
// compressor likes better than words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/bytes.h"

namespace gradcodec {

// `in` is whole words of `word` bytes (1, 2, 4, 8 or 16); `out` has the same size. Byte j of word i goes to
// out[j * words + i].
void split_planes(ByteView in, unsigned word, std::span<std::byte> out);
void join_planes(ByteView in, unsigned word, std::span<std::byte> out);  // the inverse

}  // namespace gradcodec
