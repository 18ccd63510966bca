// Coder "pack": base-L packing at a fixed rate, the fastest. spec/coders/pack.md is the definition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/coder.h"

namespace gradcodec {

// How symbols of one alphabet are grouped: `digits` of them, digit 0 least significant, are one little-endian integer
// of `size` bytes, at most max_value = L^digits - 1.
struct PackGroup {
  uint32_t size;
  uint32_t digits;
  uint64_t max_value;
};

// The group of 1 to 8 bytes with the fewest bits a digit, the smaller on a tie. `alphabet` is 2 to 65,536.
PackGroup pack_group(uint32_t alphabet);

// The smallest group that holds a digit: as many digits as one byte has room for, or one digit in two bytes.
PackGroup aligned_group(uint32_t alphabet);

const Coder& pack_coder();

// Not a coder of the registry: packs by aligned_group, so that symbols end where bytes do and a compressor of bytes can
// see them. What `zstd` compresses.
const Coder& aligned_pack();

}  // namespace gradcodec
