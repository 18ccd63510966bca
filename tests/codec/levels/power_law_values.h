// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace gradcodec {

// n values at equal steps of probability: 1 - 2 `tail` of them even below 1, the rest of both signs a power law beyond.
inline std::vector<float> power_law_values(size_t n, double exponent, double tail) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(n);  // P(|x| > magnitude)
    const double magnitude = p < 2 * tail ? std::pow(p / (2 * tail), -1 / (exponent - 1)) : (1 - p) / (1 - 2 * tail);
    x[i] = static_cast<float>(i % 2 == 0 ? magnitude : -magnitude);
  }
  return x;
}

}  // namespace gradcodec
