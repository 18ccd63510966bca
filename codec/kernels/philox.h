// Ten rounds of Philox4x32, one counter at a time: what scalar.cc and random.cc share.
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; the constants are its table 2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace gradcodec::kernels {

inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53;  // times counter word 0
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57;  // times counter word 2
inline constexpr uint32_t kPhiloxBump0 = 0x9E3779B9;        // added to key word 0 between rounds: golden ratio
inline constexpr uint32_t kPhiloxBump1 = 0xBB67AE85;        // added to key word 1 between rounds: sqrt(3) - 1
inline constexpr int kPhiloxRounds = 10;

constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter) {
  auto [c0, c1, c2, c3] = counter;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t p0 = uint64_t{kPhiloxMultiplier0} * c0, p1 = uint64_t{kPhiloxMultiplier1} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ key[0];
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ key[1];
    c3 = static_cast<uint32_t>(p0);
    key[0] += kPhiloxBump0;
    key[1] += kPhiloxBump1;
  }
  return {c0, c1, c2, c3};
}

}  // namespace gradcodec::kernels
