// raw: the elements' bytes, exactly, of any type. The bytes of each chunk are split into planes (all lowest bytes, then
// all second bytes, ...), which a general-purpose compressor likes better. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& raw_scheme();

// `in` is whole words of `word` bytes (1, 2, 4, 8 or 16); `out` has the same size. Byte j of word i goes to
// out[j * words + i].
void split_planes(ByteView in, unsigned word, std::span<std::byte> out);
void join_planes(ByteView in, unsigned word, std::span<std::byte> out);  // the inverse

}  // namespace gradcodec
