// From one byte order to the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "codec/bytes.h"

namespace gradcodec {

// Reverses each word of `word_size` bytes, at least 1, of which `bytes` holds a whole number.
void swap_bytes(std::span<std::byte> bytes, size_t word_size);

}  // namespace gradcodec
