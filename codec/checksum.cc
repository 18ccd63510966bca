// SPDX-License-Identifier: Apache-2.0
#include "codec/checksum.h"

#include <xxhash.h>

#ifdef GRADCODEC_XXH_DISPATCH
#include <xxh_x86dispatch.h>  // makes of XXH3_64bits_withSeed the one for this machine's instruction set
#endif

namespace gradcodec {

uint64_t checksum(ByteView bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

}  // namespace gradcodec
