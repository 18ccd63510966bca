// SPDX-License-Identifier: Apache-2.0
#include "codec/rans/blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/kernels/rans.h"
#include "codec/rans/code_length.h"

namespace gradcodec {
namespace {

constexpr size_t kWordsBehind = 64;
constexpr uint64_t kEnough = 16;      // symbols that are not the middle, a block
constexpr uint32_t kFixedCost = 100;  // bits: a state and a small model

}  // namespace

void fill_slots(const RansModel& model, uint32_t tokens, std::vector<uint8_t>& slots) {
  slots.resize((size_t{model.rows()} << model.precision()) + 3);
  const uint32_t bits = token_bits(tokens);
  for (uint32_t row = 0; row < model.rows(); ++row) {
    uint8_t* of_row = slots.data() + (size_t{row} << model.precision());
    for (uint32_t token = 0; token < tokens; ++token) {
      const uint32_t info = model.info()[size_t{row} << bits | token];
      std::fill_n(of_row + (info & 0xFFFF), info >> 16, static_cast<uint8_t>(token));
    }
  }
}

void take_words(ByteReader& in, uint64_t count, std::vector<uint16_t>& words) {
  const ByteView bytes = in.get_bytes(2 * count);
  words.assign(static_cast<size_t>(count) + kWordsBehind, 0);
  load_little(bytes.data(), std::span(words).first(static_cast<size_t>(count)));
}

void check_state(const ByteReader& in, uint32_t state) {
  if (state < kernels::kRansLow || state >= kernels::kRansHigh) in.fail("begins with a state that is out of range");
}

void RansBlocks::choose(std::span<const uint16_t> symbols, uint32_t middle) {
  measure(symbols, middle);
  uint32_t log2 = kMinBlockLog2;
  while (log2 < kMaxBlockLog2 && (nonzero_ << log2) < kEnough * symbols.size()) ++log2;
  merge_to(log2);
  classify();
}

void RansBlocks::measure(std::span<const uint16_t> symbols, uint32_t middle) {
  constexpr size_t kLen = size_t{1} << kMinBlockLog2;
  const auto centre = static_cast<int32_t>(middle);
  sums_.clear();
  nonzero_ = 0;
  for (size_t first = 0; first < symbols.size(); first += kLen) {
    const size_t end = std::min(symbols.size(), first + kLen);
    uint32_t sum = 0, nonzero = 0;
    for (size_t i = first; i < end; ++i) {
      const int32_t q = symbols[i] - centre;
      sum += static_cast<uint32_t>(q < 0 ? -q : q);
      nonzero += q != 0 ? 1 : 0;
    }
    sums_.push_back(sum);
    nonzero_ += nonzero;
  }
  log2_ = kMinBlockLog2;
}

void RansBlocks::merge_to(uint32_t log2) {
  const size_t run = size_t{1} << (log2 - log2_);
  size_t blocks = 0;
  for (size_t first = 0; first < sums_.size(); first += run) {
    uint32_t sum = 0;
    for (size_t i = first; i < std::min(sums_.size(), first + run); ++i) sum += sums_[i];
    sums_[blocks++] = sum;
  }
  sums_.resize(blocks);
  log2_ = log2;
}

// Half octaves of the sums, gathered from the smallest until a class has its share.
void RansBlocks::classify() {
  constexpr size_t kRanks = 64;
  const auto rank_of = [](uint32_t sum) { return sum == 0 ? 0 : 1 + (fixed_log2(sum) >> (kLengthBits - 1)); };
  std::array<uint64_t, kRanks> blocks = {};
  for (const uint32_t sum : sums_) ++blocks[rank_of(sum)];
  const uint64_t rest = sums_.size() - blocks[0];
  std::array<uint8_t, kRanks> class_of_rank = {};
  uint64_t below = 0;
  uint32_t last_share = 0;
  classes_ = blocks[0] > 0 ? 1 : 0;
  for (size_t rank = 1; rank < kRanks; ++rank) {
    if (blocks[rank] == 0) continue;
    const auto share = static_cast<uint32_t>(1 + (2 * below + blocks[rank]) * (kMaxBlockClasses - 1) / (2 * rest));
    if (share != last_share) ++classes_;
    last_share = share;
    class_of_rank[rank] = static_cast<uint8_t>(classes_ - 1);
    below += blocks[rank];
  }
  of_block_.resize(sums_.size());
  std::transform(sums_.begin(), sums_.end(), of_block_.begin(),
                 [&](uint32_t sum) { return class_of_rank[rank_of(sum)]; });
}

uint64_t RansBlocks::cost() const {
  std::array<std::array<uint32_t, kMaxBlockClasses>, kMaxBlockClasses> counts = {};
  uint32_t before = 0;
  for (const uint8_t block : of_block_) {
    ++counts[before][block];
    before = block;
  }
  uint64_t bits = 0;
  for (const auto& row : counts) {
    uint32_t total = 0;
    for (const uint32_t count : row) total += count;
    bits += n_log2_n(total);
    for (const uint32_t count : row) bits -= n_log2_n(count);
  }
  return (bits >> kLengthBits) + kFixedCost;
}

void RansBlocks::write(Bytes& out) {
  counts_.tokens = counts_.classes = classes_;
  counts_.total = of_block_.size();
  counts_.clear();
  const uint32_t bits = token_bits(classes_);
  cells_.resize(of_block_.size());
  uint32_t before = 0;
  for (const uint8_t block : of_block_) {
    ++counts_.counts[2 * before << bits | block];
    before = block;
  }
  model_.choose(counts_);
  before = 0;
  for (size_t i = 0; i < of_block_.size(); ++i) {
    const uint32_t row = model_.has_contexts() ? before >> model_.class_shift() : 0;
    before = of_block_[i];
    cells_[i] = static_cast<uint16_t>(row << bits | before);
  }
  words_.resize(of_block_.size() + 1);
  uint32_t state = kernels::kRansLow;
  const size_t count = kernels::rans_encode(cells_.data(), nullptr, cells_.size(),
                                            {model_.info().data(), model_.precision(), bits}, 1, &state, words_.data());
  std::reverse(words_.begin(), words_.begin() + static_cast<ptrdiff_t>(count));
  model_.write(1, 0, out);
  put(out, state);
  put_varint(out, count);
  put_bytes(out, LittleBytes<uint16_t>(std::span(words_).first(count)));
}

void RansBlocks::read(ByteReader& in, uint64_t count, uint32_t log2, uint32_t classes) {
  log2_ = log2;
  classes_ = classes;
  of_block_.resize(static_cast<size_t>((count + (uint64_t{1} << log2) - 1) >> log2));
  if ((std::to_integer<uint32_t>(in.peek()) & 3) != 1) in.fail("has block classes of another form");
  model_.read(in, of_block_.size(), classes, classes);
  if (model_.has_blocks()) in.fail("has classes of blocks of blocks");
  auto state = in.get<uint32_t>();
  check_state(in, state);
  const uint64_t available = in.get_varint();
  if (available > in.left() / 2) in.fail("has fewer words of block classes than it says");
  take_words(in, available, words_);
  fill_slots(model_, classes, slots_);
  const uint32_t bits = token_bits(classes);
  const size_t used =
      kernels::rans_decode_chain(slots_.data(), model_.has_contexts() ? model_.class_shift() : 31, of_block_.size(),
                                 {model_.info().data(), model_.precision(), bits}, &state, words_.data(),
                                 static_cast<size_t>(available), of_block_.data());
  if (used != available || state != kernels::kRansLow) in.fail("has block classes that do not end where they should");
}

}  // namespace gradcodec
