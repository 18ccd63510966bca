// The random rotation of a block: signs, then the Walsh-Hadamard transform (Ailon and Chazelle, "The fast
// Johnson-Lindenstrauss transform", 2009). `scalar` is the definition; the functions outside it give the same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/kernels/kernels.h"

namespace gradcodec::kernels {

inline constexpr unsigned kMaxHadamardLog2 = 18;

// What a transform of 2^log2 is multiplied by at its end: 2^(-log2 / 2), rounded to float32 where log2 is odd.
float hadamard_scale(unsigned log2);

namespace scalar {

// y = H x / sqrt(n) in place, n = 2^log2, log2 at most kMaxHadamardLog2, H the Hadamard matrix of Sylvester: entry (i,
// j) is -1 to the number of common bits of i and j. For h = 1, 2, 4, ... n / 2, in this order, and every i without the
// bit h:
//   (x[i], x[i + h]) = (x[i] + x[i + h], x[i] - x[i + h])
// and at last every element times hadamard_scale(log2); float32, each operation rounded. H is its own inverse, so a
// decoder does the same. No sum overflows if |x| is at most 2^109. x holds no NaN.
void hadamard(float* x, unsigned log2);

// out[i] = -x[i] where bit (first + i) % 32 (0 the lowest) of word (first + i) / 32 of the stream is 1, else x[i].
// `out` may be x.
void flip_signs(const Draws& draws, uint64_t first, size_t n, const float* x, float* out);

}  // namespace scalar

void hadamard(float* x, unsigned log2);
void flip_signs(const Draws& draws, uint64_t first, size_t n, const float* x, float* out);

// The error of `hadamard` by rounding: the l2 norm, over the block, of what it gives minus the exact transform is at
// most this, for an input of l2 norm `norm`. For each of log2 stages is sqrt(2) times an orthogonal map, and rounds
// each result by at most u = 2^-24 of itself, so adds u of the norm that it should have; the last product rounds once
// more and, where log2 is odd, so has its factor: (1 + u)^(log2 + 2) - 1 of the norm in all. Sums are exact among
// subnormal numbers; the last product is off by up to 2^-150 there. The error is that of independent roundings as a
// rule, about 0.5 sqrt(log2) u of the norm.
double hadamard_error(unsigned log2, double norm);

}  // namespace gradcodec::kernels
