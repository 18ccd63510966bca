// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/pack.h"

#include <algorithm>
#include <array>
#include <utility>

#include "codec/kernels/divisor.h"
#include "codec/kernels/kernels.h"

namespace gradcodec {
namespace {

constexpr uint32_t kMaxAlphabet = 65536;

// Counts from here up are refused, so that no size below can wrap.
constexpr uint64_t kMaxCount = uint64_t{1} << 56;

// Largest integer of `size` bytes, 1 to 8.
uint64_t max_of_bytes(uint32_t size) { return ~uint64_t{0} >> (64 - 8 * size); }

// The most digits, at most `limit`, whose largest value L^digits - 1 fits `size` bytes. Working with L^digits - 1
// instead of L^digits keeps 2^64 out of sight.
PackGroup fill_bytes(uint32_t alphabet, uint32_t size, uint64_t limit) {
  PackGroup group{size, 0, 0};
  const uint64_t cap = max_of_bytes(size), top = alphabet - 1;
  while (group.digits < limit && top <= cap && group.max_value <= (cap - top) / alphabet) {
    group.max_value = group.max_value * alphabet + top;
    ++group.digits;
  }
  return group;
}

// The last group, of `digits` digits: the fewest bytes that hold them. No bytes for no digits.
PackGroup last_group(uint32_t alphabet, uint64_t digits) {
  if (digits == 0) return {0, 0, 0};
  uint32_t size = 1;
  while (fill_bytes(alphabet, size, digits).digits < digits) ++size;
  return fill_bytes(alphabet, size, digits);
}

struct Plan {
  PackGroup group;
  uint64_t full;  // groups that are full
  PackGroup last;
  uint64_t size() const { return full * group.size + last.size; }
};

Plan make_plan(const PackGroup& group, uint32_t alphabet, uint64_t count) {
  return {group, count / group.digits, last_group(alphabet, count % group.digits)};
}

// The digits of a value, digit by digit: for what is left over, and for large alphabets, whose groups have few.
void split(uint64_t value, const kernels::Divisor& by_alphabet, uint32_t digits, uint16_t* out) {
  if (digits == 0) return;
  *out++ = static_cast<uint16_t>(by_alphabet.divide_any(value));
  for (uint32_t j = 1; j < digits; ++j) *out++ = static_cast<uint16_t>(by_alphabet.divide(value));
}

uint64_t join(const uint16_t* symbols, uint32_t alphabet, uint32_t digits) {
  uint64_t value = 0;
  for (uint32_t j = digits; j-- > 0;) value = value * alphabet + symbols[j];
  return value;
}

// The little-endian integer of `size` bytes at `at`: eight bytes at once where they are there.
uint64_t load(ByteView in, uint64_t at, uint32_t size) {
  uint64_t value = 0;
  if (in.size() - at < sizeof value) {
    std::memcpy(&value, in.data() + at, size);
    return little(value);
  }
  return load_little<uint64_t>(in.data() + at) & max_of_bytes(size);
}

// Writes `size` bytes at `at`, and zeros after them as far as eight bytes go: later groups overwrite those.
void store(std::span<std::byte> out, uint64_t at, uint32_t size, uint64_t value) {
  if (out.size() - at < sizeof value) {
    value = little(value);
    std::memcpy(out.data() + at, &value, size);
  } else {
    store_little(value, out.data() + at);
  }
}

// Up to eight digits, as the bytes of a word, to d_0 + d_1 L + ... + d_(k-1) L^(k-1), where L^k <= 256: the product's
// byte k - 1. What is below it does not carry, and bytes of the word from k on do not reach it.
template <uint32_t kDigits>
class ByteJoiner {
 public:
  explicit ByteJoiner(uint32_t alphabet) {
    for (uint64_t j = 0, power = 1; j < kDigits; ++j, power *= alphabet) weights_ = weights_ << 8 | power;
  }

  uint8_t join(uint64_t digits) const { return static_cast<uint8_t>(digits * weights_ >> (8 * (kDigits - 1))); }

 private:
  uint64_t weights_ = 0;
};

// Groups of one byte; the digits are a template argument so that the inner loop unrolls. Many digits go through bytes.
template <uint32_t kDigits>
void pack_bytes(const uint16_t* symbols, uint64_t groups, uint32_t alphabet, std::byte* out) {
  if constexpr (kDigits <= 2) {
    for (uint64_t i = 0; i < groups; ++i, symbols += kDigits) {
      out[i] = static_cast<std::byte>(join(symbols, alphabet, kDigits));
    }
  } else {
    constexpr uint64_t kBlock = 256;
    const ByteJoiner<kDigits> joiner(alphabet);
    std::array<uint8_t, kBlock * kDigits + sizeof(uint64_t)> narrow = {};
    for (uint64_t at = 0; at < groups; at += kBlock) {
      const uint64_t len = std::min(kBlock, groups - at);
      for (uint64_t i = 0; i < len * kDigits; ++i) narrow[i] = static_cast<uint8_t>(symbols[at * kDigits + i]);
      for (uint64_t i = 0; i < len; ++i) {
        uint64_t digits;
        std::memcpy(&digits, narrow.data() + i * kDigits, sizeof digits);
        out[at + i] = static_cast<std::byte>(joiner.join(little(digits)));
      }
    }
  }
}

template <uint32_t... kDigits>
void pack_bytes_of(std::integer_sequence<uint32_t, kDigits...>, const PackGroup& group, const uint16_t* symbols,
                   uint64_t groups, uint32_t alphabet, std::byte* out) {
  (void)((group.digits == kDigits + 1 && (pack_bytes<kDigits + 1>(symbols, groups, alphabet, out), true)) || ...);
}

// Groups of several bytes are joined and split by quads, four digits each, the last perhaps fewer: what a word holds of
// 16-bit symbols. The alphabets of such groups are below 139, since above one byte a digit is best, but for those from
// 257 on.
constexpr uint32_t kMaxQuadAlphabet = 138, kMaxQuads = 6;

bool has_quads(const PackGroup& group, uint32_t alphabet) {
  return group.size > 1 && alphabet <= kMaxQuadAlphabet && group.digits <= 4 * kMaxQuads;
}

// Packs those of `groups` groups that have eight bytes before the end of the last, and returns how many.
template <uint32_t kQuads>
uint64_t pack_quads(const uint16_t* symbols, uint64_t groups, const PackGroup& group, uint32_t alphabet,
                    std::byte* out) {
  constexpr uint64_t kBlock = 64;
  const uint64_t scale = uint64_t{alphabet} * alphabet * alphabet * alphabet;
  const uint32_t cut = 16 * (4 * kQuads - group.digits);
  const uint64_t last_mask = kSwapsBytes ? ~uint64_t{0} << cut : ~uint64_t{0} >> cut;
  std::array<uint16_t, kBlock * kQuads * 4> padded;
  std::array<uint32_t, kBlock * kQuads> quads;
  const uint64_t end = groups - std::min<uint64_t>(groups, sizeof(uint64_t) / group.size);
  for (uint64_t at = 0; at < end; at += kBlock) {
    const uint64_t len = std::min(kBlock, end - at);
    const uint16_t* from = symbols + at * group.digits;
    if (group.digits % 4 != 0) {
      for (uint64_t i = 0; i < len; ++i) {
        uint16_t* to = padded.data() + i * kQuads * 4;
        const uint16_t* one = from + i * group.digits;
        uint64_t last;  // the next group's first symbols are read too, and cut off
        std::memcpy(&last, one + (kQuads - 1) * 4, sizeof last);
        last &= last_mask;
        std::memcpy(to, one, (kQuads - 1) * sizeof last);
        std::memcpy(to + (kQuads - 1) * 4, &last, sizeof last);
      }
    }
    kernels::join_quads(group.digits % 4 == 0 ? from : padded.data(), len * kQuads, alphabet, quads.data());
    for (uint64_t i = 0; i < len; ++i) {
      uint64_t value = quads[i * kQuads + kQuads - 1];
      for (uint32_t j = kQuads - 1; j-- > 0;) value = value * scale + quads[i * kQuads + j];
      store_little(value, out + (at + i) * group.size);  // zeros behind it: later groups overwrite them
    }
  }
  return end;
}

template <uint32_t... kQuads>
uint64_t pack_quads_of(std::integer_sequence<uint32_t, kQuads...>, const uint16_t* symbols, uint64_t groups,
                       const PackGroup& group, uint32_t alphabet, std::byte* out) {
  uint64_t done = 0;
  (void)(((group.digits + 3) / 4 == kQuads + 1 &&
          (done = pack_quads<kQuads + 1>(symbols, groups, group, alphabet, out), true)) ||
         ...);
  return done;
}

[[noreturn]] void fail_digits(uint32_t alphabet) {
  throw Error(Exit::bad_input,
              "packed symbols hold a group that is no number of base " + std::to_string(alphabet) + " with its digits");
}

// Groups of one byte, through a table of the digits of each byte; two digits through a kernel.
void expand_bytes(const std::byte* in, uint64_t groups, const PackGroup& group, uint32_t alphabet, uint16_t* out) {
  constexpr uint32_t kRow = 8;  // the most digits of a byte, so that a row is one 16-byte copy
  uint8_t largest = 0;
  for (uint64_t i = 0; i < groups; ++i) largest = std::max(largest, static_cast<uint8_t>(in[i]));
  if (largest > group.max_value) fail_digits(alphabet);
  if (group.digits == 2) return kernels::split_pairs(in, groups, alphabet, out);
  std::array<std::array<uint16_t, kRow>, 256> table = {};
  const kernels::Divisor by_alphabet(alphabet);
  for (uint32_t value = 0; value <= group.max_value; ++value) {
    split(value, by_alphabet, group.digits, table[value].data());
  }
  // A whole row is copied while it stays inside the output; the last eight groups give at least as many symbols.
  const uint64_t whole = groups - std::min<uint64_t>(groups, kRow);
  for (uint64_t i = 0; i < groups; ++i, out += group.digits) {
    const auto& row = table[static_cast<uint32_t>(in[i])];
    if (i < whole) {
      std::memcpy(out, row.data(), sizeof row);
    } else {
      std::copy_n(row.data(), group.digits, out);
    }
  }
}

// The digits of every number below L^k, k of them at a time, up to four: from the second cache this is faster than any
// arithmetic.
class DigitTable {
 public:
  // This thread's, which is made when the alphabet is another than last time.
  static const DigitTable& of(uint32_t alphabet) {
    static thread_local DigitTable table;
    if (table.alphabet_ != alphabet) table.make(alphabet);
    return table;
  }

  // The `digits` digits, 4 to 24, of each number below L^digits; up to three symbols more are written behind the last.
  void split(std::span<const uint64_t> numbers, uint32_t digits, bool below_2_63, uint16_t* out) const {
    const auto parts = std::make_integer_sequence<uint32_t, 24>();
    const uint32_t count = (digits + at_once_ - 1) / at_once_;
    below_2_63 ? split_in<true>(count, parts, numbers, digits, out)
               : split_in<false>(count, parts, numbers, digits, out);
  }

 private:
  static constexpr uint32_t kMaxRows = 1 << 14;
  using Row = std::array<uint16_t, 4>;

  void make(uint32_t alphabet) {
    alphabet_ = alphabet;
    at_once_ = 0;
    uint32_t power = 1;
    for (; at_once_ < 4 && power * alphabet <= kMaxRows; ++at_once_) power *= alphabet;
    by_power_ = kernels::Divisor(power);
    rows_.resize(power);
    for (uint32_t value = 0; value < power; ++value) {
      uint32_t rest = value;
      for (uint16_t& digit : rows_[value]) {
        digit = static_cast<uint16_t>(rest % alphabet);
        rest /= alphabet;
      }
    }
  }

  // The number of parts as a template argument, so that the loop over them unrolls.
  template <bool kBelow, uint32_t... kParts>
  void split_in(uint32_t parts, std::integer_sequence<uint32_t, kParts...>, std::span<const uint64_t> numbers,
                uint32_t digits, uint16_t* out) const {
    (void)((parts == kParts + 1 && (split_parts<kBelow, kParts + 1>(numbers, digits, out), true)) || ...);
  }

  template <bool kBelow, uint32_t kParts>
  void split_parts(std::span<const uint64_t> numbers, uint32_t digits, uint16_t* out) const {
    const kernels::Divisor by_power = by_power_;
    const size_t at_once = at_once_;
    for (uint64_t value : numbers) {
      for (uint32_t part = 0; part + 1 < kParts; ++part) {
        write(kBelow || part > 0 ? by_power.divide(value) : by_power.divide_any(value), out + part * at_once);
      }
      write(value, out + (kParts - 1) * at_once);
      out += digits;
    }
  }

  void write(uint64_t value, uint16_t* out) const { std::memcpy(out, rows_[value].data(), sizeof(Row)); }

  uint32_t alphabet_ = 0, at_once_ = 0;
  kernels::Divisor by_power_ = kernels::Divisor(2);
  std::vector<Row> rows_;
};

// Groups of quads, those that have eight bytes before the end of the last. Returns how many.
uint64_t expand_quads(const std::byte* in, uint64_t groups, const PackGroup& group, uint32_t alphabet, uint16_t* out) {
  constexpr uint64_t kBlock = 64;
  const uint64_t mask = max_of_bytes(group.size), end = groups - sizeof(uint64_t) / group.size;
  const DigitTable& table = DigitTable::of(alphabet);
  std::array<uint64_t, kBlock> values;
  for (uint64_t at = 0; at < end; at += kBlock) {
    const uint64_t len = std::min(kBlock, end - at);
    uint64_t largest = 0;
    for (uint64_t i = 0; i < len; ++i) {
      values[i] = load_little<uint64_t>(in + (at + i) * group.size) & mask;
      largest = std::max(largest, values[i]);
    }
    if (largest > group.max_value) fail_digits(alphabet);
    table.split(std::span(values).first(static_cast<size_t>(len)), group.digits, group.max_value >> 63 == 0,
                out + at * group.digits);
  }
  return end;
}

// Groups of one digit: the symbols themselves, in one or two bytes.
template <typename T>
void expand_plain(const std::byte* in, uint64_t count, uint32_t alphabet, uint16_t* out) {
  uint16_t largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = load_little<T>(in + i * sizeof(T));
    largest = std::max(largest, out[i]);
  }
  if (largest >= alphabet) fail_digits(alphabet);
}

void check_alphabet(uint32_t alphabet, uint64_t count) {
  if (alphabet > kMaxAlphabet) throw Error(Exit::bug, "an alphabet of " + std::to_string(alphabet) + " symbols");
  if (count >= kMaxCount) throw Error(Exit::limit, "a stream of " + std::to_string(count) + " symbols");
}

void expand_symbols(ByteView in, uint64_t count, uint32_t alphabet, const Plan& plan, uint16_t* out) {
  constexpr uint64_t kBulkWorth = 512;  // fewer groups than this are not worth a table or a kernel
  const PackGroup& group = plan.group;
  if (group.digits == 1 && group.size == 1) return expand_plain<uint8_t>(in.data(), count, alphabet, out);
  if (group.digits == 1 && group.size == 2) return expand_plain<uint16_t>(in.data(), count, alphabet, out);
  uint64_t done = 0;
  if (plan.full >= kBulkWorth && group.size == 1) {
    done = plan.full;
    expand_bytes(in.data(), done, group, alphabet, out);
  } else if (plan.full >= kBulkWorth && has_quads(group, alphabet)) {
    done = expand_quads(in.data(), plan.full, group, alphabet, out);
  }
  const kernels::Divisor by_alphabet(alphabet);
  uint64_t at = done * group.size;
  out += done * group.digits;
  const auto take = [&](const PackGroup& one) {
    const uint64_t value = load(in, at, one.size);
    if (value > one.max_value) fail_digits(alphabet);
    split(value, by_alphabet, one.digits, out);
    at += one.size;
    out += one.digits;
  };
  for (; done < plan.full; ++done) take(group);
  if (plan.last.digits > 0) take(plan.last);
}

void shrink_symbols(const std::vector<uint16_t>& symbols, uint32_t alphabet, const Plan& plan,
                    std::span<std::byte> out) {
  const PackGroup& group = plan.group;
  const uint16_t* from = symbols.data();
  uint64_t done = 0;
  if (group.digits == 1 && group.size == 2) {
    done = plan.full;
    store_little(std::span(from, done), out.data());
  } else if (group.size == 1) {
    done = plan.full;
    pack_bytes_of(std::make_integer_sequence<uint32_t, 8>(), group, from, done, alphabet, out.data());
  } else if (has_quads(group, alphabet)) {
    done =
        pack_quads_of(std::make_integer_sequence<uint32_t, kMaxQuads>(), from, plan.full, group, alphabet, out.data());
  }
  uint64_t at = done * group.size;
  from += done * group.digits;
  const auto give = [&](const PackGroup& one) {
    store(out, at, one.size, join(from, alphabet, one.digits));
    at += one.size;
    from += one.digits;
  };
  for (; done < plan.full; ++done) give(group);
  if (plan.last.digits > 0) give(plan.last);
}

class PackCoder : public Coder {
 public:
  explicit PackCoder(PackGroup (*group)(uint32_t)) : group_(group) {}

  std::string_view name() const override { return "pack"; }
  uint16_t id() const override { return 0; }
  std::string_view summary() const override { return "base-L packing at a fixed rate, the fastest"; }

  void shrink(const Stream& in, Bytes& out) const override {
    if (in.alphabet == 0) return put_bytes(out, in.bytes);
    if (in.alphabet == 1) return;
    check_alphabet(in.alphabet, in.count());
    const size_t start = out.size();
    out.resize(start + static_cast<size_t>(*fixed_size(in.alphabet, in.count())));
    shrink_symbols(in.symbols, in.alphabet, plan(in.alphabet, in.count()), std::span(out).subspan(start));
  }

  void expand(ByteView in, uint64_t count, Stream& out) const override {
    check_alphabet(out.alphabet, count);
    const uint64_t expected = *fixed_size(out.alphabet, count);
    if (in.size() != expected) {
      throw Error(Exit::bad_input, "packed symbols of " + std::to_string(in.size()) + " bytes where " +
                                       std::to_string(expected) + " are expected");
    }
    out.bytes.clear();
    if (out.alphabet == 0) {
      out.symbols.clear();
      return put_bytes(out.bytes, in);
    }
    if (out.alphabet == 1) return out.symbols.assign(static_cast<size_t>(count), 0);
    out.symbols.resize(static_cast<size_t>(count));
    expand_symbols(in, count, out.alphabet, plan(out.alphabet, count), out.symbols.data());
  }

  std::optional<uint64_t> fixed_size(uint32_t alphabet, uint64_t count) const override {
    check_alphabet(alphabet, count);
    if (alphabet == 0) return count;
    return alphabet == 1 ? 0 : plan(alphabet, count).size();
  }

  bool is_canonical() const override { return true; }
  bool suits_bytes() const override { return true; }

 private:
  Plan plan(uint32_t alphabet, uint64_t count) const { return make_plan(group_(alphabet), alphabet, count); }

  PackGroup (*group_)(uint32_t);
};

}  // namespace

PackGroup pack_group(uint32_t alphabet) {
  PackGroup best = {0, 0, 0};
  for (uint32_t size = 1; size <= 8; ++size) {
    const PackGroup group = fill_bytes(alphabet, size, 64);
    if (group.digits > 0 && (best.digits == 0 || group.size * best.digits < best.size * group.digits)) best = group;
  }
  return best;
}

const Coder& pack_coder() {
  static const PackCoder coder(pack_group);
  return coder;
}

PackGroup aligned_group(uint32_t alphabet) {
  return fill_bytes(alphabet, alphabet <= 256 ? 1 : 2, alphabet <= 256 ? 8 : 1);
}

const Coder& aligned_pack() {
  static const PackCoder coder(aligned_group);
  return coder;
}

}  // namespace gradcodec
