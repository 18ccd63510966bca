// Subtractive dither of vectors: a chunk's values to lattice points and back.
//
// A vector is L consecutive elements of a chunk, the last one filled up with zeros. With y = x / scale, z the dither of
// the vector, uniform on the cell of 0 of the lattice, and Q the nearest point,
//
//   p = Q(y + z),   decoded (p - z) scale
//
// and the error in scales, Q(y + z) - (y + z), is uniform on the cell whatever y is (Zamir and Feder, "On
// lattice quantization noise", IEEE Transactions on Information Theory 42, 1996; Shlezinger et al., "UVeQFed",
// arXiv 2006.03262). Points are kept as seen from the dither's chamber (chamber.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "codec/kernels/kernels.h"
#include "codec/lattice/lattices.h"
#include "codec/tensor.h"

namespace gradcodec::lattice {

// The words behind dithers, purpose `cell`: those of elements are of sub 0 and the element's place in the tensor. Those
// of the zeros behind a chunk that ends before place e are of sub 1 and the coordinate 8 e + their place in the vector:
// no two vectors of a tensor share a word.
struct CellDraws {
  kernels::Draws elements, padding;
};

// Values beyond this many scales (of their coordinate) are no matter for the quantizer.
inline constexpr int32_t kMaxReach = 16384;

inline uint64_t vectors_of(Kind kind, uint64_t elements) {
  const size_t dimension = cell_of(kind).dimension;
  return (elements + dimension - 1) / dimension;
}

// z of vectors `first` to `first + count` of the chunk `range`, L numbers each: v - Q(v), v in sides of the cube drawn
// from: (word >> 9) + 1/2 units of 2^-23 sides above its lowest corner (A2; 2^-24 and word >> 8 for the others, whose
// sides are 2). All are odd multiples of 2^-24, exact.
void cell_dithers(Kind kind, const CellDraws& draws, Range range, uint64_t first, size_t count, float* z);

// The points of a chunk's vectors, doubled and seen from their chambers, L numbers each. |x| is at most kMaxReach
// scales. `decoded`, if not empty, receives what `restore` will give.
void quantize(std::span<const float> x, Kind kind, const CellDraws& draws, Range range, const Scales& scales,
              int32_t* points, std::span<float> decoded);

// And back: element i of a vector is (point / 2 - z) * scale, two float32 operations after an exact half. Coordinates
// of at most 2^17 in magnitude.
void restore(const int32_t* points, Kind kind, const CellDraws& draws, Range range, const Scales& scales,
             std::span<float> out);

}  // namespace gradcodec::lattice
