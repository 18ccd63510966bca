// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

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

// n / divisor and n % divisor for n < 2^31 and a divisor of 2 to 65,536, by one multiplication. With s = 31 +
// ceil(log2 d) and m = floor(2^s / d) + 1, m d = 2^s + e with 0 < e <= d <= 2^(s-31); n m / 2^s = n / d + n e / (d
// 2^s), and the last term is below 1 / d, so the floor is right. m <= 2^32, so n m < 2^63.
class SmallDivisor {
 public:
  explicit SmallDivisor(uint32_t divisor)
      : divisor_(divisor),
        shift_(31 + std::bit_width(divisor - 1)),
        multiplier_((uint64_t{1} << shift_) / divisor + 1) {}

  // Replaces n by the quotient, returns the remainder.
  uint32_t divide(uint32_t& n) const {
    const auto quotient = static_cast<uint32_t>(n * multiplier_ >> shift_);
    const uint32_t rest = n - quotient * divisor_;
    n = quotient;
    return rest;
  }

 private:
  uint32_t divisor_;
  int shift_;
  uint64_t multiplier_;
};

// Takes the digits off a value: limbs of as many digits as stay below 2^31 by 64-bit divisions, one in up to 30
// digits, then the digits of each limb by multiplications.
class Digits {
 public:
  explicit Digits(uint32_t alphabet) : digit_(alphabet) {
    while (limb_ * alphabet < uint64_t{1} << 31) {
      limb_ *= alphabet;
      ++limb_digits_;
    }
  }

  void split(uint64_t value, uint32_t digits, uint16_t* out) const {
    while (digits > limb_digits_) {
      auto limb = static_cast<uint32_t>(value % limb_);
      value /= limb_;
      for (uint32_t j = 0; j < limb_digits_; ++j) *out++ = static_cast<uint16_t>(digit_.divide(limb));
      digits -= limb_digits_;
    }
    auto limb = static_cast<uint32_t>(value);
    for (uint32_t j = 0; j < digits; ++j) *out++ = static_cast<uint16_t>(digit_.divide(limb));
  }

 private:
  SmallDivisor digit_;
  uint64_t limb_ = 1;
  uint32_t limb_digits_ = 0;
};

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
    return value;
  }
  std::memcpy(&value, in.data() + at, sizeof value);
  return value & max_of_bytes(size);
}

// Writes `size` bytes at `at`, and zeros after them as far as eight bytes go: later groups overwrite those.
void store(std::span<std::byte> out, uint64_t at, uint32_t size, uint64_t value) {
  if (out.size() - at < sizeof value) {
    std::memcpy(out.data() + at, &value, size);
  } else {
    std::memcpy(out.data() + at, &value, sizeof value);
  }
}

// Groups of one byte; the digits are a template argument so that the inner loop unrolls.
template <uint32_t kDigits>
void pack_bytes(const uint16_t* symbols, uint64_t groups, uint32_t alphabet, std::byte* out) {
  for (uint64_t i = 0; i < groups; ++i, symbols += kDigits) {
    out[i] = static_cast<std::byte>(join(symbols, alphabet, kDigits));
  }
}

template <uint32_t... kDigits>
void pack_bytes_of(std::integer_sequence<uint32_t, kDigits...>, const PackGroup& group, const uint16_t* symbols,
                   uint64_t groups, uint32_t alphabet, std::byte* out) {
  (void)((group.digits == kDigits + 1 && (pack_bytes<kDigits + 1>(symbols, groups, alphabet, out), true)) || ...);
}

[[noreturn]] void fail_digits(uint32_t alphabet) {
  throw Error(Exit::bad_input,
              "packed symbols hold a group that is no number of base " + std::to_string(alphabet) + " with its digits");
}

// Groups of one byte, through a table of the digits of each byte.
void expand_bytes(const std::byte* in, uint64_t groups, const PackGroup& group, uint32_t alphabet, uint16_t* out) {
  constexpr uint32_t kRow = 8;  // the most digits of a byte, so that a row is one 16-byte copy
  std::array<std::array<uint16_t, kRow>, 256> table = {};
  const Digits digits(alphabet);
  for (uint32_t value = 0; value <= group.max_value; ++value) digits.split(value, group.digits, table[value].data());
  // A whole row is copied while it stays inside the output; the last eight groups give at least as many symbols.
  uint32_t largest = 0;
  for (uint64_t i = 0; i < groups; ++i, out += group.digits) {
    const auto value = static_cast<uint32_t>(in[i]);
    largest = std::max(largest, value);
    if (i + kRow <= groups) {
      std::memcpy(out, table[value].data(), sizeof table[value]);
    } else {
      std::copy_n(table[value].data(), group.digits, out);
    }
  }
  if (largest > group.max_value) fail_digits(alphabet);
}

// Groups of one digit: the symbols themselves, in one or two bytes.
template <typename T>
void expand_plain(const std::byte* in, uint64_t count, uint32_t alphabet, uint16_t* out) {
  uint16_t largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    T symbol;
    std::memcpy(&symbol, in + i * sizeof symbol, sizeof symbol);
    out[i] = symbol;
    largest = std::max(largest, out[i]);
  }
  if (largest >= alphabet) fail_digits(alphabet);
}

void check_alphabet(uint32_t alphabet, uint64_t count) {
  if (alphabet > kMaxAlphabet) throw Error(Exit::bug, "an alphabet of " + std::to_string(alphabet) + " symbols");
  if (count >= kMaxCount) throw Error(Exit::limit, "a stream of " + std::to_string(count) + " symbols");
}

void expand_symbols(ByteView in, uint64_t count, uint32_t alphabet, const Plan& plan, uint16_t* out) {
  constexpr uint64_t kTableWorth = 512;  // fewer groups than this are not worth a table
  if (plan.group.digits == 1 && plan.group.size == 1) return expand_plain<uint8_t>(in.data(), count, alphabet, out);
  if (plan.group.digits == 1 && plan.group.size == 2) return expand_plain<uint16_t>(in.data(), count, alphabet, out);
  const Digits digits(alphabet);
  uint64_t at = 0;
  const auto take = [&](const PackGroup& group) {
    const uint64_t value = load(in, at, group.size);
    if (value > group.max_value) fail_digits(alphabet);
    digits.split(value, group.digits, out);
    at += group.size;
    out += group.digits;
  };
  if (plan.group.size == 1 && plan.full >= kTableWorth) {
    expand_bytes(in.data(), plan.full, plan.group, alphabet, out);
    at = plan.full;
    out += plan.full * plan.group.digits;
  } else {
    for (uint64_t i = 0; i < plan.full; ++i) take(plan.group);
  }
  if (plan.last.digits > 0) take(plan.last);
}

void shrink_symbols(const std::vector<uint16_t>& symbols, uint32_t alphabet, const Plan& plan,
                    std::span<std::byte> out) {
  const uint16_t* from = symbols.data();
  uint64_t at = 0;
  const auto give = [&](const PackGroup& group) {
    store(out, at, group.size, join(from, alphabet, group.digits));
    at += group.size;
    from += group.digits;
  };
  if (plan.group.size == 1) {
    pack_bytes_of(std::make_integer_sequence<uint32_t, 8>(), plan.group, from, plan.full, alphabet, out.data());
    at = plan.full;
    from += plan.full * plan.group.digits;
  } else {
    for (uint64_t i = 0; i < plan.full; ++i) give(plan.group);
  }
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
