// The static model of a rANS payload: for each row, the frequencies of tokens out of 2^k, in a short form. Rows are the
// classes of blocks of symbols times groups of context classes. spec/coders/rans.md has the layout.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "codec/bytes.h"

namespace gradcodec {

inline constexpr uint32_t kMaxTokens = 256;
inline constexpr uint32_t kMaxContextClasses = 16;
inline constexpr uint32_t kMaxBlockClasses = 8;
inline constexpr uint32_t kMinBlockLog2 = 5, kMaxBlockLog2 = 8;   // of the symbols a block
inline constexpr uint32_t kMinPrecision = 8, kMaxPrecision = 15;  // of k

// The most slots, rows 2^k, that a decoder fills for `count` symbols.
inline uint64_t max_slots(uint64_t count) {
  return std::min(uint64_t{1} << 19, (uint64_t{1} << 15) + 128 * std::min(count, uint64_t{1} << 19));
}

// Tables of rows of tokens have 2^token_bits(tokens) places a row.
inline uint32_t token_bits(uint32_t tokens) { return static_cast<uint32_t>(std::bit_width(tokens - 1)); }

// How often each token was seen in each class of blocks with each context:
// counts[(block class * contexts() + context) << token_bits | token].
struct TokenCounts {
  uint32_t tokens = 0;         // below this, 2 to kMaxTokens
  uint32_t block_classes = 1;  // 1: blocks are not told apart
  uint32_t classes = 0;        // contexts are 2 class + mirrored; 0: none, and all counts are of context 0
  uint32_t merged = 0;         // a class here is one of contexts, shifted right by this
  bool by_distance = false;    // tokens are those of tokens.h, else symbols
  uint64_t total = 0;          // of all counts
  uint64_t block_cost = 0;     // bits that the classes of the blocks take, if they are stored
  std::vector<uint32_t> counts;

  uint32_t contexts() const { return std::max(1u, 2 * classes); }

  // Sets all counts to 0.
  void clear() { counts.assign(size_t{block_classes} * contexts() << token_bits(tokens), 0); }

  // The token of the mirrored symbol.
  uint32_t mirrored(uint32_t token) const {
    if (!by_distance) return tokens - 1 - token;
    return token == 0 ? 0 : token % 2 == 1 ? token + 1 : token - 1;
  }
};

// A frequency as `mantissa` bits after its first and an exponent: index 0, 1, 2, ... of the numbers that have this
// form.
uint32_t frequency_of_index(uint32_t index, uint32_t mantissa);
uint32_t nearest_index(uint32_t frequency, uint32_t mantissa);

class RansModel {
 public:
  // Which model codes these counts (not all 0) in the fewest bits, its own size included, among: blocks told apart or
  // not; no contexts, and groups of 1, 2, 4, ... classes; k of 12 or more. Integer arithmetic: the same on every
  // machine.
  void choose(const TokenCounts& counts);

  // Appends the model; the lowest two bits of its first byte are `form`. `block_log2`: of the symbols a block, 5 to 8.
  void write(uint32_t form, uint32_t block_log2, Bytes& out) const;

  // Takes a model of tokens below `tokens` of `count` symbols, for contexts of `classes` (0: none). Throws
  // Error(bad_input) on what write never makes.
  void read(ByteReader& in, uint64_t count, uint32_t tokens, uint32_t classes);

  bool has_contexts() const { return grouping_ != kNoContexts; }
  bool has_blocks() const { return block_classes_ > 1; }
  uint32_t block_classes() const { return block_classes_; }
  uint32_t block_log2() const { return block_log2_; }  // after read
  uint32_t class_shift() const { return grouping_; }   // group = class >> this
  uint32_t groups() const { return groups_; }
  uint32_t rows() const { return block_classes_ * groups_; }  // block class * groups() + group
  uint32_t precision() const { return precision_; }           // k
  uint64_t coded_bits() const { return coded_bits_; }         // about, of the symbols alone; after choose

  // Frequency << 16 | sum of those before it, at [row << token_bits | token].
  const std::vector<uint32_t>& info() const { return info_; }

 private:
  static constexpr uint32_t kNoContexts = 255;

  struct Price {
    uint64_t cost = 0;  // 2^-16 bits, the model's own among them
    uint32_t precision = 0;
  };
  struct Candidate {
    bool blocks = false;
    uint32_t grouping = kNoContexts, precision = 0;
    uint64_t cost = 0;
  };
  struct Rice {
    uint32_t parameter;
    uint64_t bits;  // of all indices
  };
  uint64_t fit(const TokenCounts& counts, const Candidate& candidate);
  void fold(const TokenCounts& counts, bool blocks, uint32_t grouping);
  void find_span();
  Price price(uint64_t slots) const;
  void set_mantissa();
  void set_row(uint32_t row);
  void fit_row(uint32_t row, uint64_t total);
  void set_coded_bits();
  uint64_t others_of(uint32_t row) const;  // the frequencies of all but rest_, together
  void set_info();
  Rice best_rice(bool first) const;
  void read_head(ByteReader& in, uint64_t count, uint32_t tokens, uint32_t classes);
  void read_indices(ByteReader& in);

  size_t at(uint32_t row, uint32_t token) const { return size_t{row} << bits_ | token; }
  uint64_t total_of(uint32_t row) const;

  // What a token's frequency index in the row is expected to be, from what stands before it.
  uint32_t predicted(uint32_t row, uint32_t token) const;
  // Calls visit(row, token) for each index that is stored, in order: of the first row, or of the others.
  template <typename Visit>
  void for_stored(bool first, const Visit& visit) const;

  uint32_t bits_ = 8;  // of tokens
  uint32_t block_classes_ = 1, block_log2_ = 0;
  uint32_t grouping_ = kNoContexts, groups_ = 1, precision_ = 12, mantissa_ = 0;
  uint32_t low_ = 0, high_ = 0, rest_ = 0;  // the tokens in use; rest_ takes what the others leave
  uint32_t rice_first_ = 0, rice_next_ = 0;
  uint64_t coded_bits_ = 0;
  std::vector<uint32_t> folded_;   // counts by row
  std::vector<uint32_t> indices_;  // of frequencies, likewise
  std::vector<uint32_t> info_;
};

}  // namespace gradcodec
