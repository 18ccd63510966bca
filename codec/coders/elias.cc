// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/elias.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace gradcodec {
namespace {

constexpr uint32_t kMaxAlphabet = 65536;

// Counts from here up are refused, so that a number of non-zeros plus one has at most kMaxOmegaWidth bits.
constexpr uint64_t kMaxCount = uint64_t{1} << (kMaxOmegaWidth - 1);

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::bad_input, "elias payload " + text); }

// By the number's width in bits: what comes before the number itself, so that its word is `bits` + 2 number.
constexpr std::array<OmegaWord, kMaxOmegaWidth + 1> kHeads = [] {
  std::array<OmegaWord, kMaxOmegaWidth + 1> heads = {};
  heads[1] = {~uint64_t{1}, 1};  // -2: the word of 1 is 0, without the number
  for (uint32_t width = 2; width <= kMaxOmegaWidth; ++width) {
    // The word of width - 1 without its last 0, then the number, then 0.
    const OmegaWord head = heads[static_cast<size_t>(std::bit_width(width - 1))];
    heads[width] = {(head.bits + 2 * (width - 1)) >> 1 << (width + 1), head.length + width};
  }
  return heads;
}();

// Numbers below 64, by the first bits of their words.
constexpr uint32_t kShortBits = 12;
struct ShortNumber {
  uint8_t value = 0, length = 0;
};
constexpr std::array<ShortNumber, 1 << kShortBits> kShort = [] {
  std::array<ShortNumber, 1 << kShortBits> table = {};
  for (uint32_t number = 1; number < 64; ++number) {
    const OmegaWord head = kHeads[static_cast<size_t>(std::bit_width(number))];
    const uint32_t spare = kShortBits - head.length;
    const uint64_t first = (head.bits + 2 * number) << spare;
    for (uint64_t i = 0; i < uint64_t{1} << spare; ++i) {
      table[first + i] = {static_cast<uint8_t>(number), static_cast<uint8_t>(head.length)};
    }
  }
  return table;
}();

// The head of a number's word. `| 1`: known not to be 0, a number's width needs no branch.
OmegaWord head_of(uint64_t number) { return kHeads[static_cast<size_t>(std::bit_width(number | 1))]; }

uint32_t omega_length(uint64_t number) { return head_of(number).length; }

// Appends bits, the first in the highest bit of a byte.
class BitWriter {
 public:
  // `bits`: all that will be written.
  BitWriter(Bytes& out, uint64_t bits) : out_(out), start_(out.size()), size_(static_cast<size_t>((bits + 7) / 8)) {
    out_.resize(start_ + size_ + sizeof(uint64_t));  // so that eight bytes can be stored at once
    to_ = out_.data() + start_;
  }

  // 1 to 56 bits.
  void put(OmegaWord word) {
    last_ |= word.bits << (64 - (at_ & 7) - word.length);
    store_little(__builtin_bswap64(last_), to_ + at_ / 8);
    const uint64_t next = at_ + word.length;
    last_ <<= 8 * (next / 8 - at_ / 8);
    at_ = next;
  }

  void finish() {
    if ((at_ + 7) / 8 != size_) throw Error(Exit::bug, "elias wrote another number of bits than it counted");
    out_.resize(start_ + size_);
  }

 private:
  Bytes& out_;
  size_t start_, size_;
  std::byte* to_;
  uint64_t at_ = 0;    // bits written
  uint64_t last_ = 0;  // those of the last byte, if it is not full, highest first
};

// Beyond the end there are zeros; finish() finds that out.
class BitReader {
 public:
  explicit BitReader(ByteView in) : in_(in) {}

  uint64_t left() const { return in_.size() * 8 - at_; }

  // The next 57 bits or more, from the highest; below them zeros.
  uint64_t window() const {
    const uint64_t byte = at_ / 8;
    uint64_t bits = 0;
    if (byte + sizeof bits <= in_.size()) {
      std::memcpy(&bits, in_.data() + byte, sizeof bits);
    } else if (byte < in_.size()) {
      std::memcpy(&bits, in_.data() + byte, in_.size() - byte);
    }
    return __builtin_bswap64(little(bits)) << (at_ & 7);
  }

  void skip(uint64_t bits) { at_ += bits; }

  void finish() const {
    if (at_ > in_.size() * 8) fail("ends too early");
    if (left() >= 8) fail("has " + std::to_string(left() / 8) + " bytes more than its symbols need");
    if (left() > 0 && window() != 0) fail("has bits after its symbols");
  }

 private:
  ByteView in_;
  uint64_t at_ = 0;  // bits read
};

// Symbols as signed levels: symbol - middle, from -middle to `top`.
struct Levels {
  explicit Levels(uint32_t alphabet) : middle(alphabet / 2), top(alphabet - 1 - middle) {}
  uint32_t middle, top;
};

constexpr uint32_t kMaxLevelWidth = 16;  // bits of a magnitude, at most 32,768

// As kHeads, of a sign and a magnitude, by the sign and the magnitude's width; nothing for 0.
using LevelHeads = std::array<std::array<OmegaWord, kMaxLevelWidth + 1>, 2>;
constexpr LevelHeads kLevelHeads = [] {
  LevelHeads heads = {};
  for (uint64_t negative = 0; negative < 2; ++negative) {
    for (uint32_t width = 1; width <= kMaxLevelWidth; ++width) {
      const OmegaWord head = kHeads[width];
      heads[negative][width] = {(negative << head.length) + head.bits, head.length + 1};
    }
  }
  return heads;
}();

// The dense form's: a flag before the sign, and of 0 the flag alone.
constexpr LevelHeads kFlaggedHeads = [] {
  LevelHeads heads = kLevelHeads;
  for (auto& of_sign : heads) {
    for (OmegaWord& head : of_sign) {
      head = {head.bits + (head.length > 0 ? uint64_t{1} << head.length : 0), head.length + 1};
    }
  }
  return heads;
}();

OmegaWord level_word(const LevelHeads& heads, uint32_t symbol, uint32_t middle) {
  const int level = static_cast<int>(symbol) - static_cast<int>(middle);
  const auto magnitude = static_cast<uint32_t>(std::abs(level));
  const OmegaWord head = heads[level < 0 ? 1 : 0][static_cast<size_t>(std::bit_width(2 * magnitude | 1)) - 1];
  return {head.bits + 2 * magnitude, head.length};
}

// Calls visit(index) at least for each symbol that is not the middle one: for all four of each four that has one.
template <typename Visit>
void for_each_candidate(const std::vector<uint16_t>& symbols, uint32_t middle, const Visit& visit) {
  const uint64_t zeros = middle * 0x0001000100010001U;
  size_t i = 0;
  for (; i + 4 <= symbols.size(); i += 4) {
    uint64_t four;
    std::memcpy(&four, &symbols[i], sizeof four);
    if (four == zeros) continue;
    for (size_t j = 0; j < 4; ++j) visit(i + j);
  }
  for (; i < symbols.size(); ++i) visit(i);
}

// Bits that tell where the non-zeros are. The dense form has a bit a symbol for it, and is else as long as the sparse
// one: signs and magnitudes are the same in both.
class Positions {
 public:
  // The symbol at `index`, above those before. Masked: where half of them are 0, a branch would be one of chance.
  void add(uint64_t index, bool nonzero) {
    const uint64_t gap = index + 1 - next_, mask = nonzero ? ~uint64_t{0} : 0;
    bits_ += omega_length(gap) & mask;
    next_ += gap & mask;
    nonzeros_ += nonzero ? 1 : 0;
  }
  uint64_t nonzeros() const { return nonzeros_; }
  uint64_t bits() const { return bits_ + omega_length(nonzeros_ + 1); }
  bool are_sparse(uint64_t count) const { return bits() < count; }

 private:
  uint64_t bits_ = 0, nonzeros_ = 0;
  uint64_t next_ = 0;  // after the last non-zero
};

void write_sparse(const std::vector<uint16_t>& symbols, uint32_t middle, uint64_t nonzeros, BitWriter& writer) {
  writer.put({1, 1});
  writer.put(omega_word(nonzeros + 1));
  size_t next = 0;
  for_each_candidate(symbols, middle, [&](size_t i) {
    if (symbols[i] == middle) return;
    writer.put(omega_word(i + 1 - next));
    next = i + 1;
    writer.put(level_word(kLevelHeads, symbols[i], middle));
  });
}

// Two levels at once: at most 2 * 25 bits.
void write_dense(const std::vector<uint16_t>& symbols, uint32_t middle, BitWriter& writer) {
  writer.put({0, 1});
  size_t i = 0;
  for (; i + 2 <= symbols.size(); i += 2) {
    const OmegaWord a = level_word(kFlaggedHeads, symbols[i], middle);
    const OmegaWord b = level_word(kFlaggedHeads, symbols[i + 1], middle);
    writer.put({a.bits << b.length | b.bits, a.length + b.length});
  }
  if (i < symbols.size()) writer.put(level_word(kFlaggedHeads, symbols[i], middle));
}

void shrink_symbols(const std::vector<uint16_t>& symbols, uint32_t middle, Bytes& out) {
  Positions positions;
  uint64_t levels = 0;  // bits of signs and magnitudes
  for_each_candidate(symbols, middle, [&](size_t i) {
    positions.add(i, symbols[i] != middle);
    levels += level_word(kLevelHeads, symbols[i], middle).length;
  });
  const bool sparse = positions.are_sparse(symbols.size());
  BitWriter writer(out, 1 + levels + (sparse ? positions.bits() : symbols.size()));
  if (sparse) {
    write_sparse(symbols, middle, positions.nonzeros(), writer);
  } else {
    write_dense(symbols, middle, writer);
  }
  writer.finish();
}

// A sign and a magnitude, as read.
struct Level {
  uint16_t symbol;
  uint32_t length;  // bits
};

// At the top of `window`, of which 41 bits are known: a level's word has at most 24.
Level read_level(uint64_t window, const Levels& levels) {
  const bool negative = window >> 63 != 0;
  const OmegaNumber magnitude = read_omega(window << 1);
  if (magnitude.length == 0 || magnitude.value > (negative ? levels.middle : levels.top)) {
    fail("holds a level outside its alphabet");
  }
  const auto size = static_cast<uint32_t>(magnitude.value);
  return {static_cast<uint16_t>(negative ? levels.middle - size : levels.middle + size), magnitude.length + 1};
}

// `symbols` holds zeros, that is, the middle.
void read_sparse(BitReader& in, const Levels& levels, std::vector<uint16_t>& symbols) {
  const OmegaNumber head = read_omega(in.window());
  if (head.length == 0 || head.value > symbols.size() + 1) fail("has more non-zeros than symbols");
  in.skip(head.length);
  Positions positions;
  uint64_t next = 0;
  for (uint64_t nonzeros = head.value - 1; nonzeros > 0; --nonzeros) {
    const OmegaNumber gap = read_omega(in.window());
    if (gap.length == 0 || gap.value > symbols.size() - next) fail("has a non-zero beyond its symbols");
    in.skip(gap.length);
    next += gap.value;
    positions.add(next - 1, true);
    const Level level = read_level(in.window(), levels);
    in.skip(level.length);
    symbols[next - 1] = level.symbol;
  }
  if (!positions.are_sparse(symbols.size())) fail("is in the sparse form where the dense one is as short");
}

void read_dense(BitReader& in, const Levels& levels, std::vector<uint16_t>& symbols) {
  constexpr int kRun = 15;  // zeros taken at once, so that 57 - 15 - 1 = 41 bits are left for the level
  Positions positions;
  for (uint64_t i = 0; i < symbols.size();) {
    const uint64_t window = in.window();
    const int zeros = std::min(std::countl_zero(window), kRun);
    i += static_cast<uint64_t>(zeros);
    if (i >= symbols.size()) {
      in.skip(static_cast<uint64_t>(zeros) - (i - symbols.size()));
      break;
    }
    in.skip(static_cast<uint64_t>(zeros));
    if (zeros == kRun) continue;
    const Level level = read_level(window << (zeros + 1), levels);
    in.skip(1 + level.length);
    symbols[i] = level.symbol;
    positions.add(i++, true);
  }
  if (positions.are_sparse(symbols.size())) fail("is in the dense form where the sparse one is shorter");
}

void expand_symbols(ByteView in, uint64_t count, uint32_t alphabet, std::vector<uint16_t>& symbols) {
  if (in.empty()) fail("is empty");
  const Levels levels(alphabet);
  BitReader reader(in);
  const bool sparse = reader.window() >> 63 != 0;
  reader.skip(1);
  if (!sparse && reader.left() < count) fail("ends too early");  // before anything is allocated
  symbols.assign(static_cast<size_t>(count), static_cast<uint16_t>(levels.middle));
  if (sparse) {
    read_sparse(reader, levels, symbols);
  } else {
    read_dense(reader, levels, symbols);
  }
  reader.finish();
}

void check_range(uint32_t alphabet, uint64_t count) {
  if (alphabet > kMaxAlphabet) throw Error(Exit::bug, "an alphabet of " + std::to_string(alphabet) + " symbols");
  if (count >= kMaxCount) throw Error(Exit::limit, "a stream of " + std::to_string(count) + " symbols");
}

class EliasCoder : public Coder {
 public:
  std::string_view name() const override { return "elias"; }
  uint16_t id() const override { return 4; }
  std::string_view summary() const override { return "QSGD's: Elias omega codes of gaps and levels, or of levels"; }

  void shrink(const Stream& in, Bytes& out) const override {
    check_range(in.alphabet, in.count());
    if (in.alphabet == 0) return put_bytes(out, in.bytes);
    if (in.alphabet > 1 && in.count() > 0) shrink_symbols(in.symbols, in.alphabet / 2, out);
  }

  void expand(ByteView in, uint64_t count, Stream& out) const override {
    check_range(out.alphabet, count);
    out.symbols.clear();
    out.bytes.clear();
    const std::optional<uint64_t> expected = fixed_size(out.alphabet, count);
    if (!expected) return expand_symbols(in, count, out.alphabet, out.symbols);
    if (in.size() != *expected) {
      fail("has " + std::to_string(in.size()) + " bytes where " + std::to_string(*expected) + " are expected");
    }
    if (out.alphabet == 0) return put_bytes(out.bytes, in);
    out.symbols.resize(static_cast<size_t>(count));  // of one symbol, or none
  }

  std::optional<uint64_t> fixed_size(uint32_t alphabet, uint64_t count) const override {
    check_range(alphabet, count);
    if (alphabet == 0) return count;
    if (alphabet == 1 || count == 0) return 0;
    return std::nullopt;
  }

  bool is_canonical() const override { return true; }
};

}  // namespace

OmegaWord omega_word(uint64_t number) {
  const OmegaWord head = head_of(number);
  return {head.bits + 2 * number, head.length};
}

OmegaNumber read_omega(uint64_t window) {
  const ShortNumber number = kShort[window >> (64 - kShortBits)];
  if (number.length > 0) return {number.value, number.length};
  uint64_t value = 1;
  uint32_t length = 1;
  while (window >> 63 != 0) {
    if (value >= kMaxOmegaWidth) return {0, 0};
    const auto bits = static_cast<uint32_t>(value) + 1;  // of the next value
    value = window >> (64 - bits);
    window <<= bits;
    length += bits;
  }
  return {value, length};
}

const Coder& elias_coder() {
  static const EliasCoder coder;
  return coder;
}

}  // namespace gradcodec
