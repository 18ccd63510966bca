// SPDX-License-Identifier: Apache-2.0
#include "codec/rans/model.h"

#include <algorithm>
#include <array>
#include <bit>

#include "codec/rans/code_length.h"

namespace gradcodec {
namespace {

constexpr uint32_t kDefaultPrecision = 12;
constexpr uint32_t kMaxCells = 4096;  // rows times tokens that are worth the time to price
constexpr uint64_t kBit = uint64_t{1} << kLengthBits;

uint32_t zigzag(int32_t delta) { return static_cast<uint32_t>(delta < 0 ? -2 * delta - 1 : 2 * delta); }
int32_t unzigzag(uint32_t code) {
  const auto half = static_cast<int32_t>((code + 1) / 2);
  return code % 2 == 1 ? -half : half;
}

// Bits from the lowest of a byte to the highest.
class BitWriter {
 public:
  explicit BitWriter(Bytes& out) : out_(out) {}
  ~BitWriter() {
    if (held_ > 0) put(out_, static_cast<uint8_t>(bits_));
  }
  BitWriter(const BitWriter&) = delete;
  BitWriter& operator=(const BitWriter&) = delete;

  void write(uint32_t value, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      bits_ |= (value >> i & 1) << held_;
      if (++held_ == 8) {
        put(out_, static_cast<uint8_t>(bits_));
        bits_ = held_ = 0;
      }
    }
  }

  // Golomb-Rice: value >> k ones, a zero, then k bits.
  void write_rice(uint32_t value, uint32_t k) {
    for (uint32_t i = 0; i < value >> k; ++i) write(1, 1);
    write(0, 1);
    write(value, k);
  }

 private:
  Bytes& out_;
  uint32_t bits_ = 0, held_ = 0;
};

class BitReader {
 public:
  explicit BitReader(ByteReader& in) : in_(in) {}

  uint32_t read(uint32_t count) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (left_ == 0) {
        bits_ = in_.get<uint8_t>();
        left_ = 8;
      }
      value |= (bits_ & 1) << i;
      bits_ >>= 1;
      --left_;
    }
    return value;
  }

  uint32_t read_rice(uint32_t k, uint32_t limit) {
    uint32_t quotient = 0;
    while (read(1) != 0) {
      if (++quotient > limit >> k) in_.fail("holds a frequency that is too large");
    }
    return quotient << k | read(k);
  }

  void expect_zeros() {
    if (bits_ != 0) in_.fail("has bits set after its model that must be zero");
  }

 private:
  ByteReader& in_;
  uint32_t bits_ = 0, left_ = 0;
};

}  // namespace

uint32_t frequency_of_index(uint32_t index, uint32_t mantissa) {
  if (index < 2u << mantissa) return index;
  const uint32_t exponent = (index >> mantissa) - 1, first = 1u << mantissa;
  return (first | (index & (first - 1))) << exponent;
}

uint32_t nearest_index(uint32_t frequency, uint32_t mantissa) {
  if (frequency < 2u << mantissa) return frequency;
  const auto exponent = static_cast<uint32_t>(std::bit_width(frequency)) - 1 - mantissa;
  const uint32_t below = ((exponent + 1) << mantissa) + (frequency >> exponent) - (1u << mantissa);
  return below + (frequency >> (exponent - 1) & 1);
}

// Adds up the counts of each row.
void RansModel::fold(const TokenCounts& counts, bool blocks, uint32_t grouping) {
  bits_ = token_bits(counts.tokens);
  grouping_ = grouping;
  groups_ = grouping == kNoContexts ? 1 : ((counts.classes - 1) >> (grouping - counts.merged)) + 1;
  block_classes_ = blocks ? counts.block_classes : 1;
  folded_.assign(size_t{rows()} << bits_, 0);
  const uint32_t* from = counts.counts.data();
  for (uint32_t block = 0; block < counts.block_classes; ++block) {
    for (uint32_t context = 0; context < counts.contexts(); ++context, from += size_t{1} << bits_) {
      const uint32_t group = grouping == kNoContexts ? 0 : context >> 1 >> (grouping - counts.merged);
      uint32_t* to = folded_.data() + at((blocks ? block : 0) * groups_ + group, 0);
      const bool back = grouping == kNoContexts && context % 2 != 0;
      for (uint32_t token = 0; token < counts.tokens; ++token) to[back ? counts.mirrored(token) : token] += from[token];
    }
  }
  find_span();
}

void RansModel::find_span() {
  std::array<uint64_t, kMaxTokens> totals = {};
  for (uint32_t row = 0; row < rows(); ++row) {
    for (uint32_t token = 0; token < 1u << bits_; ++token) totals[token] += folded_[at(row, token)];
  }
  const auto is_used = [](uint64_t count) { return count > 0; };
  low_ = static_cast<uint32_t>(std::find_if(totals.begin(), totals.end(), is_used) - totals.begin());
  high_ = static_cast<uint32_t>(totals.rend() - std::find_if(totals.rbegin(), totals.rend(), is_used)) - 1;
  rest_ = static_cast<uint32_t>(std::max_element(totals.begin(), totals.end()) - totals.begin());
}

uint64_t RansModel::total_of(uint32_t row) const {
  uint64_t total = 0;
  for (uint32_t token = low_; token <= high_; ++token) total += folded_[at(row, token)];
  return total;
}

// Entropy; what is lost where a frequency of 1 is more than a token deserves, for two precisions; and about what the
// model takes.
RansModel::Price RansModel::price(uint64_t slots) const {
  const uint32_t large = std::min(kMaxPrecision, static_cast<uint32_t>(std::bit_width(slots / rows())) - 1);
  uint64_t entropy = 0, used = 0, unused = 0, loss_small = 0, loss_large = 0;
  for (uint32_t row = 0; row < rows(); ++row) {
    const uint64_t total = total_of(row);
    if (total == 0) continue;
    entropy += n_log2_n(static_cast<uint32_t>(total));
    for (uint32_t token = low_; token <= high_; ++token) {
      const uint64_t count = folded_[at(row, token)];
      if (count == 0) {
        ++unused;
        continue;
      }
      ++used;
      entropy -= n_log2_n(static_cast<uint32_t>(count));
      const auto loss = [&](uint32_t precision) -> uint64_t {
        const uint64_t share = count << precision;
        return share >= total ? 0 : (total - share % total) * (kBit * 1477 / 1024) >> precision;  // log2 e
      };
      loss_small += loss(kDefaultPrecision);
      loss_large += loss(large);
    }
  }
  const uint64_t model = (used * 4 + unused) * kBit;
  const uint64_t small = entropy + loss_small + model, fine = entropy + loss_large + model;
  // Large tables are slower: only for 0.1 % or more.
  if (large > kDefaultPrecision && fine + fine / 1024 < small) return {fine, large};
  return {small, kDefaultPrecision};
}

// More bits for a frequency where more symbols profit: a bit more quarters the loss, 0.03 4^-m of a bit a symbol.
void RansModel::set_mantissa() {
  uint64_t total = 0, used = 1;
  for (const uint32_t count : folded_) {
    total += count;
    used += count > 0 ? 1 : 0;
  }
  const auto width = static_cast<uint32_t>(std::bit_width(total / used));
  mantissa_ = width < 4 ? 0 : std::min(7u, (width - 4) / 2);
}

void RansModel::choose(const TokenCounts& counts) {
  Candidate plain, contexts;
  const uint64_t slots = max_slots(counts.total);
  const auto consider = [&](bool blocks, uint32_t grouping, Candidate& best) {
    fold(counts, blocks, grouping);
    if (rows() > 1 && rows() * (high_ - low_ + 1) > kMaxCells) return;
    if (uint64_t{rows()} << kDefaultPrecision > slots) return;
    const Price found = price(slots);
    const uint64_t cost = found.cost + (blocks ? counts.block_cost * kBit : 0);
    if (best.precision == 0 || cost < best.cost) best = {blocks, grouping, found.precision, cost};
  };
  for (const bool blocks : {false, true}) {
    if (blocks && counts.block_classes == 1) break;
    consider(blocks, kNoContexts, plain);
    for (uint32_t grouping = counts.merged; counts.classes > 0; ++grouping) {
      consider(blocks, grouping, contexts);
      if (groups_ == 1) break;
    }
  }
  // Prices are estimates; whether contexts pay is decided by what the models make of them.
  const uint64_t without = fit(counts, plain);
  if (contexts.precision == 0 || contexts.cost >= plain.cost) return;
  if (fit(counts, contexts) >= without) fit(counts, plain);
}

// Makes this the model of the candidate. Returns the bits of symbols, blocks and model.
uint64_t RansModel::fit(const TokenCounts& counts, const Candidate& candidate) {
  fold(counts, candidate.blocks, candidate.grouping);
  precision_ = candidate.precision;
  set_mantissa();
  indices_.assign(folded_.size(), 0);
  for (uint32_t row = 0; row < rows(); ++row) set_row(row);
  const Rice first = best_rice(true), next = best_rice(false);
  rice_first_ = first.parameter;
  rice_next_ = next.parameter;
  set_info();
  set_coded_bits();
  return coded_bits_ + first.bits + next.bits + (candidate.blocks ? counts.block_cost + 8 : 0) + (rows() > 1 ? 8 : 0);
}

void RansModel::set_coded_bits() {
  coded_bits_ = 0;
  for (size_t cell = 0; cell < folded_.size(); ++cell) {
    if (folded_[cell] == 0) continue;
    coded_bits_ += folded_[cell] * ((uint64_t{precision_} << kLengthBits) - fixed_log2(info_[cell] >> 16));
  }
  coded_bits_ >>= kLengthBits;
}

// Each used token but rest_ takes the index nearest to its share, at least 1; then they are made to fit. A row of
// nothing is as it is expected to be.
void RansModel::set_row(uint32_t row) {
  const uint64_t total = total_of(row);
  for (uint32_t token = low_; token <= high_; ++token) {
    if (token == rest_) continue;
    const uint64_t count = folded_[at(row, token)];
    uint32_t& index = indices_[at(row, token)];
    if (total == 0) {
      index = row == 0 ? 0 : predicted(row, token);
    } else if (count > 0) {
      const uint64_t share = ((count << precision_) + total / 2) / total;
      index = nearest_index(std::max(1u, static_cast<uint32_t>(share)), mantissa_);
    }
  }
  if (total > 0) fit_row(row, total);
}

// Takes from the largest frequencies what rest_ needs: half its share at least, if it is used.
void RansModel::fit_row(uint32_t row, uint64_t total) {
  const uint64_t of_rest = folded_[at(row, rest_)];
  const uint64_t wanted = of_rest == 0 ? 0 : std::max(uint64_t{1}, (of_rest << precision_) / total / 2);
  const uint64_t room = (uint64_t{1} << precision_) - wanted;
  while (others_of(row) > room) {
    uint32_t* largest = nullptr;
    for (uint32_t token = low_; token <= high_; ++token) {
      uint32_t& index = indices_[at(row, token)];
      if (token != rest_ && (largest == nullptr || index > *largest)) largest = &index;
    }
    --*largest;
  }
}

uint64_t RansModel::others_of(uint32_t row) const {
  uint64_t sum = 0;
  for (uint32_t token = low_; token <= high_; ++token) {
    if (token != rest_) sum += frequency_of_index(indices_[at(row, token)], mantissa_);
  }
  return sum;
}

void RansModel::set_info() {
  info_.assign(size_t{rows()} << bits_, 0);
  for (uint32_t row = 0; row < rows(); ++row) {
    const uint32_t rest = (1u << precision_) - static_cast<uint32_t>(others_of(row));
    uint32_t start = 0;
    for (uint32_t token = low_; token <= high_; ++token) {
      const uint32_t frequency = token == rest_ ? rest : frequency_of_index(indices_[at(row, token)], mantissa_);
      info_[at(row, token)] = frequency << 16 | start;
      start += frequency;
    }
  }
}

uint32_t RansModel::predicted(uint32_t row, uint32_t token) const {
  if (row % groups_ > 0) return indices_[at(row - 1, token)];
  if (row > 0) return indices_[at(row - groups_, token)];
  uint32_t before = token;
  do {
    if (before == low_) return 0;
    --before;
  } while (before == rest_);
  return indices_[before];
}

template <typename Visit>
void RansModel::for_stored(bool first, const Visit& visit) const {
  for (uint32_t row = first ? 0 : 1; row < (first ? 1 : rows()); ++row) {
    for (uint32_t token = low_; token <= high_; ++token) {
      if (token != rest_) visit(row, token);
    }
  }
}

RansModel::Rice RansModel::best_rice(bool first) const {
  std::array<uint64_t, 10> sizes = {};
  for_stored(first, [&](uint32_t row, uint32_t token) {
    const auto index = static_cast<int32_t>(indices_[at(row, token)]);
    const uint32_t code = zigzag(index - static_cast<int32_t>(predicted(row, token)));
    for (uint32_t k = 0; k < sizes.size(); ++k) sizes[k] += (code >> k) + 1 + k;
  });
  const auto* least = std::min_element(sizes.begin(), sizes.end());
  return {static_cast<uint32_t>(least - sizes.begin()), *least};
}

void RansModel::write(uint32_t form, uint32_t block_log2, Bytes& out) const {
  const uint32_t contexts = has_contexts() ? grouping_ + 1 : 0;
  put(out, static_cast<uint8_t>(form | contexts << 2 | mantissa_ << 5));
  put(out, static_cast<uint8_t>((precision_ - kMinPrecision) | rice_first_ << 3 | (has_blocks() ? 0x80 : 0)));
  if (has_blocks()) put(out, static_cast<uint8_t>((block_log2 - kMinBlockLog2) | (block_classes_ - 1) << 2));
  if (rows() > 1) put(out, static_cast<uint8_t>(rice_next_));
  put(out, static_cast<uint8_t>(low_));
  put(out, static_cast<uint8_t>(high_ - low_));
  put(out, static_cast<uint8_t>(rest_ - low_));
  BitWriter bits(out);
  for (const bool first : {true, false}) {
    for_stored(first, [&](uint32_t row, uint32_t token) {
      const auto index = static_cast<int32_t>(indices_[at(row, token)]);
      bits.write_rice(zigzag(index - static_cast<int32_t>(predicted(row, token))), first ? rice_first_ : rice_next_);
    });
  }
}

void RansModel::read(ByteReader& in, uint64_t count, uint32_t tokens, uint32_t classes) {
  read_head(in, count, tokens, classes);
  read_indices(in);
  for (uint32_t row = 0; row < rows(); ++row) {
    if (others_of(row) > 1u << precision_) in.fail("holds frequencies of more than their sum");
  }
  set_info();
}

void RansModel::read_head(ByteReader& in, uint64_t count, uint32_t tokens, uint32_t classes) {
  bits_ = token_bits(tokens);
  const auto head = in.get<uint8_t>();
  const uint32_t contexts = head >> 2 & 7;
  mantissa_ = head >> 5;
  grouping_ = contexts == 0 ? kNoContexts : contexts - 1;
  groups_ = 1;
  if (contexts > 0) {
    const bool is_last = grouping_ == 0 || (classes - 1) >> (grouping_ - 1) > 0;
    if (classes == 0 || !is_last) in.fail("groups contexts that there are not");
    groups_ = ((classes - 1) >> grouping_) + 1;
  }
  const auto precision = in.get<uint8_t>();
  precision_ = (precision & 7) + kMinPrecision;
  rice_first_ = precision >> 3 & 15;
  block_classes_ = 1;
  if (precision >= 0x80) {
    const auto blocks = in.get<uint8_t>();
    block_log2_ = (blocks & 3) + kMinBlockLog2;
    block_classes_ = (blocks >> 2) + 1;
    if (block_classes_ == 1 || block_classes_ > kMaxBlockClasses) in.fail("has a number of block classes not in use");
  }
  rice_next_ = rows() > 1 ? in.get<uint8_t>() : 0;
  if (rice_next_ > 15 || uint64_t{rows()} << precision_ > max_slots(count)) in.fail("has a model that is too large");
  low_ = in.get<uint8_t>();
  high_ = low_ + in.get<uint8_t>();
  rest_ = low_ + in.get<uint8_t>();
  if (high_ >= tokens || rest_ > high_) in.fail("has a model of tokens that there are not");
}

void RansModel::read_indices(ByteReader& in) {
  indices_.assign(size_t{rows()} << bits_, 0);
  BitReader bits(in);
  const auto limit = static_cast<int32_t>(nearest_index(1u << precision_, mantissa_));
  for (const bool first : {true, false}) {
    for_stored(first, [&](uint32_t row, uint32_t token) {
      const uint32_t code = bits.read_rice(first ? rice_first_ : rice_next_, 2 * static_cast<uint32_t>(limit));
      const int32_t index = static_cast<int32_t>(predicted(row, token)) + unzigzag(code);
      if (index < 0 || index > limit) in.fail("holds a frequency that is too large");
      indices_[at(row, token)] = static_cast<uint32_t>(index);
    });
  }
  bits.expect_zeros();
}

}  // namespace gradcodec
