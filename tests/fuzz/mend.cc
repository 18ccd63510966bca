// The mutator of targets that read .gradz files: libFuzzer's, and then most often with checks that are right again.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <optional>

#include "fuzz/support.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace gradcodec::fuzz {
namespace {

void put_word(std::span<std::byte> bytes, size_t at, uint64_t word, size_t size) {
  if (at <= bytes.size() && size <= bytes.size() - at) std::memcpy(bytes.data() + at, &word, size);
}

// Where the block's check begins; nothing if it claims more than there is.
std::optional<size_t> check_of_block(ByteView bytes, size_t at) {
  uint64_t size = 0;
  for (unsigned shift = 0; shift < 28; shift += 7) {
    const size_t place = at + 1 + shift / 7;
    if (place >= bytes.size()) return std::nullopt;
    const auto byte = std::to_integer<uint8_t>(bytes[place]);
    size |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte >= 0x80) continue;
    const uint64_t check = place + 1 + size;
    if (check + 8 > bytes.size()) return std::nullopt;
    return static_cast<size_t>(check);
  }
  return std::nullopt;
}

uint64_t frames_of(ByteView schema_body) {
  try {
    return total_frames(parse_schema(schema_body, kMemory));
  } catch (const Error&) {
    return ~uint64_t{0};  // as many as there are bytes for
  }
}

}  // namespace

void mend_checks(std::span<std::byte> bytes) {
  if (bytes.size() < kPrologueSize) return;
  put_word(bytes, 12, checksum(bytes.first(12), 0), 4);
  size_t at = kPrologueSize;
  uint64_t seed = 0, k = 0, frames = 0;
  for (bool header = true; header; ++k) {
    const std::optional<size_t> check = check_of_block(bytes, at);
    if (!check) return;
    const ByteView block = bytes.subspan(at, *check - at);
    seed = checksum(block, seed);
    put_word(bytes, *check, seed, 8);
    if (k == 0) {
      size_t body = 2;
      while (std::to_integer<uint8_t>(block[body - 1]) >= 0x80) ++body;
      frames = frames_of(block.subspan(body));
    }
    header = block[0] != static_cast<std::byte>(Tag::message);
    at = *check + 8;
  }
  for (; frames > 0 && bytes.size() - at >= kFrameOverhead; --frames, ++k) {
    uint32_t head = 0;
    std::memcpy(&head, bytes.data() + at, sizeof(head));
    const uint64_t size = 4 + (head & kMaxBody);
    if (size + 8 > bytes.size() - at) return;
    put_word(bytes, at + size, checksum(bytes.subspan(at, size), seed + k), 8);
    at += size + 8;
  }
  const std::optional<size_t> end = check_of_block(bytes, at);
  if (!end) return;
  put_word(bytes, *end, checksum(bytes.subspan(at, *end - at), seed + k), 8);
  put_word(bytes, *end + 8, *end + 8 - at, 4);
}

}  // namespace gradcodec::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  const size_t mutated = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) gradcodec::fuzz::mend_checks(std::as_writable_bytes(std::span(data, mutated)));
  return mutated;
}
