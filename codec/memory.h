// What a scheme remembers of a tensor from step to step: what was not sent yet, or what both sides know already.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>

namespace gradcodec {

inline constexpr size_t kMostVectors = 2;

// Vectors of as many float64 as the tensor has elements; a scheme that has fewer leaves the last ones empty. Whoever
// holds the state owns them.
struct Memory {
  std::array<std::span<double>, kMostVectors> vectors;
  bool updates = true;  // each chunk's part is brought to the next step once the chunk is encoded or decoded, in place
};

}  // namespace gradcodec
