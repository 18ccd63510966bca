// Logarithms for choices among codes, in integers: what they decide is decided alike on every machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace gradcodec {

inline constexpr int kLengthBits = 16;  // lengths are in units of 2^-16 bit

// log2(1 + i / 256) by repeated squaring, a bit at a time.
constexpr uint32_t log2_of_table(uint32_t i) {
  uint64_t x = uint64_t{256 + i} << 23;  // 1.0 is 2^31
  uint32_t log = 0;
  for (int bit = 0; bit <= kLengthBits; ++bit) {
    x = x * x >> 31;
    const bool carry = x >= uint64_t{1} << 32;
    if (carry) x >>= 1;
    log = log << 1 | (carry ? 1 : 0);
  }
  return (log + 1) >> 1;
}

constexpr std::array<uint32_t, 257> make_log2_table() {
  std::array<uint32_t, 257> table = {};
  for (uint32_t i = 0; i < 256; ++i) table[i] = log2_of_table(i);
  table[256] = 1u << kLengthBits;
  return table;
}
inline constexpr std::array<uint32_t, 257> kLog2Table = make_log2_table();

// log2 of v >= 1 in units of 2^-16, within 3 of them: a table and straight lines between its places.
constexpr uint32_t fixed_log2(uint32_t v) {
  const int exponent = std::bit_width(v) - 1;
  const uint32_t fraction = v << (31 - exponent) & 0x7FFFFFFF, place = fraction >> 23, rest = fraction & 0x7FFFFF;
  const uint32_t below = kLog2Table[place], above = kLog2Table[place + 1];
  const auto between = static_cast<uint32_t>(uint64_t{above - below} * rest >> 23);
  return (static_cast<uint32_t>(exponent) << kLengthBits) + below + between;
}

// n log2 n, 0 for 0.
constexpr uint64_t n_log2_n(uint32_t n) { return n == 0 ? 0 : uint64_t{n} * fixed_log2(n); }

}  // namespace gradcodec
