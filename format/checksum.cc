// SPDX-License-Identifier: Apache-2.0
#include "format/checksum.h"

#include <xxhash.h>

namespace gradcodec {

uint64_t checksum(ByteView bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

}  // namespace gradcodec
