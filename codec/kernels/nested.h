// The decoder of nested dithered quantization: which point of the fine lattice an index modulo rho stands for, given
// side information. `scalar` is the definition; the function outside it gives the same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/kernels/kernels.h"

namespace gradcodec::kernels {

// A fine lattice of this step, and the coarse one of rho times it.
struct Nesting {
  float step;       // from 2^-126 to 2^126
  uint32_t rho;     // from 2 to 32,767
  double alpha;     // in (0, 1]
  double per_side;  // alpha / (rho step)
  double per_fine;  // 1 / rho
  double keep;      // 1 - alpha^2
  double cell;      // alpha step
  int32_t most;     // floor(32,767 / rho) + 1: |m| is no larger
};

namespace scalar {

// Of element i, k = symbols[i] - floor(rho / 2), y = sides[i] (0 if that is not regular), u of the draw of coordinate
// first + i, in float64, each operation rounded:
//   m = floor((y per_side + (u - k) per_fine) + 0.5), limited to [-most, most];   q = k + rho m
//   out[i] = (float32(q) - u) step in float32 if alpha is 1, else float32(keep y + cell (q - u))
// fine[i] = q, if not null. symbols are below rho.
void nested_decode(const uint16_t* symbols, const float* sides, size_t n, const Draws& draws, uint64_t first,
                   const Nesting& nesting, int32_t* fine, float* out);

}  // namespace scalar

void nested_decode(const uint16_t* symbols, const float* sides, size_t n, const Draws& draws, uint64_t first,
                   const Nesting& nesting, int32_t* fine, float* out);

}  // namespace gradcodec::kernels
