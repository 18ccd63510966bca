// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/swap_bytes.h"

#include <algorithm>
#include <cstring>

namespace gradcodec {
namespace {

template <typename Word>
void swap_words(std::span<std::byte> bytes, Word (*swap)(Word)) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof(Word));
    word = swap(word);
    std::memcpy(bytes.data() + at, &word, sizeof(Word));
  }
}

}  // namespace

void swap_bytes(std::span<std::byte> bytes, size_t word_size) {
  if (word_size == 2)
    return swap_words<uint16_t>(bytes, [](uint16_t word) -> uint16_t { return __builtin_bswap16(word); });
  if (word_size == 4)
    return swap_words<uint32_t>(bytes, [](uint32_t word) -> uint32_t { return __builtin_bswap32(word); });
  if (word_size == 8)
    return swap_words<uint64_t>(bytes, [](uint64_t word) -> uint64_t { return __builtin_bswap64(word); });
  for (size_t at = 0; at < bytes.size(); at += word_size) {
    std::reverse(bytes.data() + at, bytes.data() + at + word_size);
  }
}

}  // namespace gradcodec
