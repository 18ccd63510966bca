// Random numbers of the experiment itself: batches, first weights, speeds. (Those of the codec are Philox's.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace gradcodec::train {

// The standard says which numbers mt19937_64 gives, and of distributions nothing: so they are written here.
class Numbers {
 public:
  // Streams of one seed differ by `purpose`.
  Numbers(uint64_t seed, uint64_t purpose) : engine_(seed * 0x9E3779B97F4A7C15 + purpose) {}

  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // 0 <= u < 1
  uint64_t below(uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(engine_()) * n) >> 64); }
  double normal() {  // Box and Muller's
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * 3.14159265358979323846 * uniform());
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gradcodec::train
