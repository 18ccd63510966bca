// XXH3-64, the one checksum of the format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codec/bytes.h"

namespace gradcodec {

uint64_t checksum(ByteView bytes, uint64_t seed);

}  // namespace gradcodec
