// A set of places below n, as a strictly increasing list, in few bits: Rice codes of the gaps between them, or between
// those that are missing if they are fewer (Rice, "Some practical universal noiseless coding techniques", 1979; the
// special case 2^r of Golomb, "Run-length encodings", 1966, made for geometric gaps, which those of a random set are).
//
// spec/indices.md has the layout. Of random sets of any density the size is within 5 % + 16 bits of log2 C(n, k).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/bytes.h"

namespace gradcodec {

// Appends `indices`, strictly increasing and below n, which is below 2^32. None, or all n of them, take no byte.
void put_indices(Bytes& out, std::span<const uint32_t> indices, uint64_t n);

// Takes `count` indices (at most n) from the front of `in`, which says by itself where they end, into `indices`.
// Throws Error(bad_input) on what put_indices does not write for any set.
void take_indices(ByteReader& in, uint64_t count, uint64_t n, std::vector<uint32_t>& indices);

}  // namespace gradcodec
