// Lattice points as streams of symbols: one symbol a vector where its point is in the table, coordinates where not.
//
//   joint    a symbol a vector: the number of its point in the table, or kEscape
//   coset    of escaped vectors (A2, E8): 1 if coordinates are halves
//   others   of escaped vectors: coordinates 2 to L, rounded down
//   first    of escaped vectors: coordinate 1, rounded down; where whole coordinates have an even sum, the half of it,
//            rounded down
//
// Where every vector escapes, there is no joint stream: high rates are coded by coordinates alone. Where none does, it
// is the only one.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/bytes.h"
#include "codec/lattice/lattices.h"
#include "codec/scheme.h"

namespace gradcodec::lattice {

// What is stored of a chunk beside its streams. Alphabets are 2 level + 1, symbols q + level.
struct IndexShape {
  uint32_t joint_level = 0;
  uint64_t escapes = 0;
  uint32_t others_level = 0, first_level = 0;

  bool has_joint(uint64_t vectors) const { return escapes == 0 || escapes < vectors; }

  void put(Bytes& out) const;

  // Throws Error(bad_input) on what no chunk of `vectors` vectors has.
  static IndexShape take(ByteReader& in, uint64_t vectors);

  StreamShapes streams(Kind kind, uint64_t vectors) const;
};

// Of `points`, L numbers a vector, as quantize gives them. Fills `streams`, one for each of the shape's.
IndexShape to_streams(Kind kind, std::span<const int32_t> points, std::vector<Stream>& streams);

// And back. Throws Error(bad_input) on symbols that to_streams does not give.
void from_streams(Kind kind, const IndexShape& shape, const std::vector<Stream>& streams, std::span<int32_t> points);

}  // namespace gradcodec::lattice
