// Classes of blocks of symbols, by how large the symbols are: what lets a static model follow rows of zeros and layers
// of different scale. A decoder is told the class of each block before its symbols.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/bytes.h"
#include "codec/rans/model.h"

namespace gradcodec {

class RansBlocks {
 public:
  // Divides the symbols into blocks and those into classes: none at all are class 0 if there are such blocks, the
  // others about equally many a class. `middle`: the symbol that stands for nothing.
  void choose(std::span<const uint16_t> symbols, uint32_t middle);

  uint32_t classes() const { return classes_; }  // 1: blocks are all alike
  uint32_t len_log2() const { return log2_; }    // of the symbols a block, 5 to 8
  const std::vector<uint8_t>& of_block() const { return of_block_; }
  uint64_t cost() const;  // about the bits that write takes

  // The classes by rANS with one lane, the class of the block before as context.
  void write(Bytes& out);

  // Of ceil(count / 2^log2) blocks. Throws Error(bad_input).
  void read(ByteReader& in, uint64_t count, uint32_t log2, uint32_t classes);

 private:
  void measure(std::span<const uint16_t> symbols, uint32_t middle);
  void merge_to(uint32_t log2);
  void classify();

  uint32_t log2_ = kMinBlockLog2, classes_ = 1;
  uint64_t nonzero_ = 0;
  std::vector<uint32_t> sums_;  // of the distances from the middle, a block each
  std::vector<uint8_t> of_block_;
  TokenCounts counts_;
  RansModel model_;
  std::vector<uint16_t> cells_, words_;
  std::vector<uint8_t> slots_;
};

// Which token each slot of each row belongs to, and three bytes more.
void fill_slots(const RansModel& model, uint32_t tokens, std::vector<uint8_t>& slots);

// Throws Error(bad_input) on a state that no encoder ends in.
void check_state(const ByteReader& in, uint32_t state);

// The rest of `in` or the next `count` words of it, with zeros behind them that a decoder may read and drop.
void take_words(ByteReader& in, uint64_t count, std::vector<uint16_t>& words);

}  // namespace gradcodec
