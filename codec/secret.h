// Random numbers that nobody can make again, for privacy alone: a key of the operating system, expanded by ChaCha20.
// Everything else draws from codec/random.h, whose seed is public and whose generator is no cipher.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace gradcodec {

// One thread's stream, with a key of its own, which is wiped in the end.
class SecretWords {
 public:
  // Throws Error(io) if the system gives no key.
  SecretWords();
  ~SecretWords();
  SecretWords(const SecretWords&) = delete;
  SecretWords& operator=(const SecretWords&) = delete;

  // The next words of the stream.
  void fill(std::span<uint32_t> words);

 private:
  std::array<unsigned char, 32> key_;
  uint64_t calls_ = 0;  // the cipher's nonce: no two calls share a stream
};

// Overwrites words that were secret, and is not optimized away.
void wipe(std::span<uint32_t> words);

}  // namespace gradcodec
