// SPDX-License-Identifier: Apache-2.0
#include "codec/secret.h"

#include <sodium.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "codec/error.h"

namespace gradcodec {
namespace {

static_assert(crypto_stream_chacha20_KEYBYTES == 32 && crypto_stream_chacha20_NONCEBYTES == sizeof(uint64_t));

// Waits, after a start of the machine, until the system has gathered randomness.
void take_from_system(std::span<unsigned char> out) {
  while (!out.empty()) {
    const ssize_t n = getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error(Exit::io, "the system gives no random key, without which there is no privacy");
    out = out.subspan(static_cast<size_t>(n));
  }
}

}  // namespace

SecretWords::SecretWords() {
  static const bool ready = sodium_init() >= 0;  // which picks the fastest implementation
  if (!ready) throw Error(Exit::io, "the library of ciphers, libsodium, does not start");
  take_from_system(key_);
}

SecretWords::~SecretWords() { sodium_memzero(key_.data(), key_.size()); }

void SecretWords::fill(std::span<uint32_t> words) {
  if (words.empty()) return;
  std::array<unsigned char, sizeof(uint64_t)> nonce;
  std::memcpy(nonce.data(), &calls_, sizeof(calls_));
  ++calls_;
  crypto_stream_chacha20(reinterpret_cast<unsigned char*>(words.data()), words.size_bytes(), nonce.data(), key_.data());
}

void wipe(std::span<uint32_t> words) {
  if (!words.empty()) sodium_memzero(words.data(), words.size_bytes());
}

}  // namespace gradcodec
