// What the simd files give to dispatch.cc: a table of vectorised kernels each, for each instruction set. A file makes
// its tables as simd.cc says, and ends with simd_table-inl.h: a function that returns the one of Highway's chosen
// target. simd_targets() of simd.cc chooses each target in turn and puts what those functions return into a Target.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codec/kernels/kernels.h"
#include "codec/kernels/nested.h"
#include "codec/kernels/rans.h"

namespace gradcodec::kernels {

// Draws without the std::array, whose functions must not be compiled for one instruction set.
struct PlainDraws {
  uint32_t key0, key1, ordinal, tag;
};

// The kernels of one instruction set. max_abs, the sums and half_dither_decode take only the elements that fill whole
// vectors and return how many those are, a multiple of 16 for the sums. Encoding and decoding are for steps other than
// 0.
struct Table {
  void (*philox_words)(PlainDraws draws, uint64_t first, size_t n, uint32_t* words);
  size_t (*max_abs)(const float* x, size_t n, uint32_t* max_bits, uint64_t* irregular);
  size_t (*add_sum)(const float* x, size_t n, double* partial);
  size_t (*add_magnitudes)(const float* x, size_t n, double* partial);
  size_t (*add_squares)(const float* x, size_t n, double mean, double* partial);
  void (*dither_encode)(const float* x, size_t n, PlainDraws draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                        float* decoded);
  void (*dither_decode)(const uint16_t* symbols, size_t n, PlainDraws draws, uint64_t first, Lattice lattice,
                        float* out);
  void (*half_dither_encode)(const float* x, size_t n, PlainDraws draws, uint64_t first, Lattice lattice,
                             uint16_t* symbols, float* decoded);
  size_t (*half_dither_decode)(const uint16_t* symbols, size_t n, Lattice lattice, float* out);
  void (*dither_contexts)(PlainDraws draws, uint64_t first, size_t n, uint16_t* contexts);
  void (*dither_encode_steps)(const float* x, const float* steps, size_t n, PlainDraws draws, uint64_t first,
                              uint32_t max_level, uint16_t* symbols, float* decoded);
  void (*dither_decode_steps)(const uint16_t* symbols, const float* steps, size_t n, PlainDraws draws, uint64_t first,
                              uint32_t max_level, float* out);
};

// simd_bytes.cc. All take only the elements that fill whole vectors, or fewer, and return how many those are.
struct ByteTable {
  size_t (*split_pairs)(const uint8_t* in, size_t n, uint32_t alphabet, uint16_t* symbols);
  size_t (*join_quads)(const uint16_t* symbols, size_t n, uint32_t alphabet, uint32_t* quads);
  size_t (*split_planes)(const uint8_t* in, size_t words, uint32_t word, uint8_t* out);
  size_t (*join_planes)(const uint8_t* in, size_t words, uint32_t word, uint8_t* out);
};

// simd_half.cc; as above. `fits` becomes false where the kernel returns false.
struct HalfTable {
  size_t (*widen_half)(Half type, const uint8_t* in, size_t n, float* out);
  size_t (*narrow_half)(Half type, const float* x, size_t n, uint8_t* out, bool* fits);
  size_t (*narrow_half_by)(Half type, const float* x, const uint32_t* words, size_t n, uint8_t* out, bool* fits);
};

// simd_levels.cc. levels_decode as above; levels_encode takes all.
struct LevelTable {
  void (*levels_encode)(const float* x, size_t n, PlainDraws draws, uint64_t first, const float* levels, uint32_t count,
                        uint16_t* symbols, float* decoded);
  size_t (*levels_decode)(const uint16_t* symbols, size_t n, const float* levels, float* out);
};

// simd_rans.cc: whole rounds of 32 lanes, the first two without raw bits; to encode, k of 12 or more.
struct RansKernels {
  size_t (*encode)(const uint16_t* cells, size_t n, const RansTable& table, uint32_t* states, uint16_t* words);
  size_t (*decode)(const RansSlots& slots, size_t n, const RansTable& table, uint32_t* states, const uint16_t* words,
                   size_t available, uint8_t* tokens);
  size_t (*encode_infos)(const uint32_t* infos, const RansRaw* raw, size_t n, uint32_t precision, uint32_t* states,
                         uint16_t* words);
  size_t (*decode_rows)(const RansRows& rows, size_t n, uint32_t* states, const uint16_t* words, size_t available,
                        uint8_t* tokens, uint16_t* raw);
};

// simd_hadamard.cc. hadamard: from 2^kMinSimdHadamardLog2 floats on. flip_signs: 32 floats a word, negated where its
// bit is 1, the lowest first.
inline constexpr unsigned kMinSimdHadamardLog2 = 6;
struct HadamardTable {
  void (*hadamard)(float* x, unsigned log2, float factor);
  void (*flip_signs)(const float* x, size_t words, const uint32_t* bits, float* out);
};

// simd_nested.cc; takes all. `fine` may be null.
struct NestedTable {
  void (*decode)(const uint16_t* symbols, const float* sides, size_t n, PlainDraws draws, uint64_t first,
                 const Nesting& nesting, int32_t* fine, float* out);
};

// simd_sketch.cc. Medians are of the elements alone that fill whole vectors, and it is returned how many those are; the
// others take all.
struct SketchTable {
  void (*terms)(PlainDraws draws, uint64_t first, const float* x, size_t n, uint32_t cols, uint32_t* buckets,
                float* terms);
  void (*row)(PlainDraws draws, uint64_t first, size_t n, uint32_t cols, const float* row, float* out);
  size_t (*medians)(const float* rows, size_t stride, unsigned count, size_t n, float* out);
  size_t (*whole_medians)(const int64_t* rows, size_t stride, unsigned count, size_t n, int64_t* out);
};

// For each set of lanes, as bits: the word, counted from 0, that lane j of the set takes. Where a vector has no more
// than eight lanes.
struct RansExpand {
  uint32_t lane[256][8];
};
constexpr RansExpand make_rans_expand() {
  RansExpand expand = {};
  for (uint32_t bits = 0; bits < 256; ++bits) {
    uint32_t taken = 0;
    for (uint32_t lane = 0; lane < 8; ++lane) {
      expand.lane[bits][lane] = taken;
      if (bits >> lane & 1) ++taken;
    }
    for (uint32_t lane = 0; lane < 8; ++lane) {
      if (expand.lane[bits][lane] > 7) expand.lane[bits][lane] = 0;  // after the last of all eight
    }
  }
  return expand;
}
inline constexpr RansExpand kRansExpand = make_rans_expand();

// Of Highway's chosen target; null for its fallback without vectors.
const ByteTable* chosen_byte_table();
const HalfTable* chosen_half_table();
const LevelTable* chosen_level_table();
const RansKernels* chosen_rans_kernels();
const HadamardTable* chosen_hadamard_table();
const NestedTable* chosen_nested_table();
const SketchTable* chosen_sketch_table();

struct Target {
  std::string name;
  const Table* table;
  const ByteTable* bytes;
  const HalfTable* half;
  const LevelTable* levels;
  const RansKernels* rans;
  const HadamardTable* hadamard;
  const NestedTable* nested;
  const SketchTable* sketch;
};

// Of the instruction set in use; null for the scalar kernels.
const RansKernels* rans_kernels();
const HadamardTable* hadamard_table();
const NestedTable* nested_table();
const SketchTable* sketch_table();

// Those that this machine can run, best first.
std::vector<Target> simd_targets();

}  // namespace gradcodec::kernels
