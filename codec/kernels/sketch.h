// The loops of count sketches (Charikar, Chen, Farach-Colton, "Finding frequent items in data streams", 2002): where a
// coordinate falls in a row, with which sign, and what the rows say of it. `scalar` is the definition; the functions
// outside it give the same bits.
//
// The word of a coordinate in a row says both: the sign is - where its top bit is 1; the bucket is floor(r cols /
// 2^32), r the word shifted left by one (modulo 2^32), so 31 random bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/kernels/kernels.h"

namespace gradcodec::kernels {

inline constexpr unsigned kMaxSketchRows = 63;

inline uint32_t sketch_bucket(uint32_t word, uint32_t cols) {
  return static_cast<uint32_t>(uint64_t{static_cast<uint32_t>(word << 1)} * cols >> 32);
}
inline bool sketch_minus(uint32_t word) { return word >> 31 != 0; }

namespace scalar {

// Of coordinates first .. first + n - 1: their buckets, and x with their signs. cols is 1 to 2^31 - 1.
void sketch_terms(const Draws& draws, uint64_t first, const float* x, size_t n, uint32_t cols, uint32_t* buckets,
                  float* terms);

// out[i] = row[bucket], with the sign of coordinate first + i: what one row says of it.
void sketch_row(const Draws& draws, uint64_t first, size_t n, uint32_t cols, const float* row, float* out);

// out[i] = the median of rows[r * stride + i] for r < count, which is odd and at most kMaxSketchRows; -0 becomes +0. No
// NaN.
void sketch_medians(const float* rows, size_t stride, unsigned count, size_t n, float* out);
void sketch_medians(const int64_t* rows, size_t stride, unsigned count, size_t n, int64_t* out);

}  // namespace scalar

void sketch_terms(const Draws& draws, uint64_t first, const float* x, size_t n, uint32_t cols, uint32_t* buckets,
                  float* terms);
void sketch_row(const Draws& draws, uint64_t first, size_t n, uint32_t cols, const float* row, float* out);
void sketch_medians(const float* rows, size_t stride, unsigned count, size_t n, float* out);
void sketch_medians(const int64_t* rows, size_t stride, unsigned count, size_t n, int64_t* out);

}  // namespace gradcodec::kernels
