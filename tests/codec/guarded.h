// Buffers for tests of loops that write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradcodec {

inline constexpr uint8_t kCanary = 0xAB;

// A buffer that notices writes past its ends, at any alignment.
template <typename T>
struct Guarded {
  Guarded(size_t n, size_t offset) : all(n + offset + 32, static_cast<T>(kCanary)), len(n), start(offset + 16) {}
  T* data() { return all.data() + start; }
  bool intact() const {
    for (size_t i = 0; i < all.size(); ++i) {
      if ((i < start || i >= start + len) && all[i] != static_cast<T>(kCanary)) return false;
    }
    return true;
  }
  std::vector<T> all;
  size_t len, start;
};

}  // namespace gradcodec
