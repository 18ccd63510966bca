// Exact division of 64-bit integers by multiplication, one at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace gradcodec::kernels {

// The upper half of a product of 128 bits.
inline uint64_t multiply_high(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}

// Division by d, 2 to 2^32 - 1. With 2^t < d <= 2^(t+1) and m = floor(2^(64+t) / d) + 1, m d = 2^(64+t) + e with 0 < e
// <= d; n m / 2^(64+t) = n / d + n e / (d 2^(64+t)), and for n < 2^63 the last term is below 1 / d, so that the floor
// is right. m < 2^64.
class Divisor {
 public:
  explicit Divisor(uint32_t d) : d_(d), shift_(std::bit_width(d - 1) - 1) {
    uint64_t rest = uint64_t{1} << shift_;
    for (int bit = 0; bit < 64; ++bit) {
      rest *= 2;
      multiplier_ = multiplier_ * 2 + (rest >= d_);
      if (rest >= d_) rest -= d_;
    }
    ++multiplier_;
  }

  // Replaces n, below 2^63, by the quotient, and returns the remainder.
  uint32_t divide(uint64_t& n) const {
    const uint64_t quotient = multiply_high(n, multiplier_) >> shift_;
    const auto rest = static_cast<uint32_t>(n - quotient * d_);
    n = quotient;
    return rest;
  }

  // The same for any n: first by 2 d, of floor(n / 2).
  uint32_t divide_any(uint64_t& n) const {
    const uint64_t half = multiply_high(n >> 1, multiplier_) >> shift_;
    const uint64_t rest = n - 2 * half * d_;  // below 2 d
    n = 2 * half + (rest >= d_);
    return static_cast<uint32_t>(rest >= d_ ? rest - d_ : rest);
  }

 private:
  uint64_t d_, multiplier_ = 0;
  int shift_;
};

}  // namespace gradcodec::kernels
