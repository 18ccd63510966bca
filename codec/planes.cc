// SPDX-License-Identifier: Apache-2.0
#include "codec/planes.h"

namespace gradcodec {

void split_planes(ByteView in, unsigned word, std::span<std::byte> out) {
  const size_t words = in.size() / word;
  for (unsigned j = 0; j < word; ++j) {
    const std::byte* from = in.data() + j;
    std::byte* to = out.data() + j * words;
    for (size_t i = 0; i < words; ++i) to[i] = from[i * word];
  }
}

void join_planes(ByteView in, unsigned word, std::span<std::byte> out) {
  const size_t words = in.size() / word;
  for (unsigned j = 0; j < word; ++j) {
    const std::byte* from = in.data() + j * words;
    std::byte* to = out.data() + j;
    for (size_t i = 0; i < words; ++i) to[i * word] = from[i];
  }
}

}  // namespace gradcodec
