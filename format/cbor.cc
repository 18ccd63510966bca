// SPDX-License-Identifier: Apache-2.0
#include "format/cbor.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "codec/utf8.h"

namespace gradcodec {
namespace {

enum Major : uint8_t { unsigned_int, negative_int, byte_string, text_string, array, map, tag, simple };

constexpr uint8_t kFalse = 0xF4, kTrue = 0xF5, kNull = 0xF6, kHalf = 0xF9, kSingle = 0xFA, kDouble = 0xFB;
constexpr uint16_t kHalfNan = 0x7E00;

// The half with exactly the value of `value`, if there is one. NaN gives the canonical NaN.
std::optional<uint16_t> exact_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 127;
  const uint32_t mantissa = bits & 0x7FFFFF;
  const auto make = [&](uint32_t rest) { return static_cast<uint16_t>(sign | rest); };
  if (std::isnan(value)) return kHalfNan;
  if (std::isinf(value)) return make(0x7C00);
  if (value == 0) return sign;
  if (exponent > 15 || exponent < -24) return std::nullopt;
  if (exponent >= -14) {
    if ((mantissa & 0x1FFF) != 0) return std::nullopt;
    return make(static_cast<uint32_t>(exponent + 15) << 10 | mantissa >> 13);
  }
  // Subnormal: the value is a multiple of 2^-24.
  const unsigned shift = static_cast<unsigned>(-1 - exponent);
  const uint32_t whole = mantissa | 0x800000;
  if ((whole & ((1u << shift) - 1)) != 0) return std::nullopt;
  return make(whole >> shift);
}

std::optional<float> exact_single(double value) {
  if (std::isnan(value)) return std::bit_cast<float>(0x7FC00000u);
  if (std::isinf(value)) return std::signbit(value) ? -HUGE_VALF : HUGE_VALF;
  // Only finite values in float's range: a conversion out of it is undefined.
  if (std::abs(value) > 3.4028234663852886e38) return std::nullopt;
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) != value) return std::nullopt;
  return narrow;
}

uint64_t big_endian(ByteView bytes) {
  uint64_t value = 0;
  for (const std::byte b : bytes) value = value << 8 | static_cast<uint8_t>(b);
  return value;
}

class Checker {
 public:
  Checker(ByteView bytes, std::string_view what, const CborLimits& limits)
      : whole_(bytes), in_(bytes, what), limits_(limits) {}

  void check() {
    item(0);
    in_.expect_end();
  }

 private:
  // The number in or after the first byte of an item, which must be in its shortest form.
  uint64_t argument(uint8_t info) {
    if (info < 24) return info;
    if (info > 27) in_.fail("has an item of indefinite length or of an unknown form, which is not deterministic CBOR");
    const unsigned width = 1u << (info - 24);
    const uint64_t value = big_endian(in_.get_bytes(width));
    const uint64_t least = width == 1 ? 24 : uint64_t{1} << (4 * width);
    if (value < least) in_.fail("has a number that is not in its shortest form");
    return value;
  }

  void text(uint64_t len) {
    const ByteView bytes = in_.get_bytes(len);
    if (!is_utf8({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) in_.fail("has text that is not UTF-8");
  }

  // Recursion is limited by limits_.depth, and every item takes a byte at least: a claimed length costs nothing.
  void item(unsigned depth) {
    if (++items_ > limits_.items) {
      throw Error(Exit::limit, "more than " + std::to_string(limits_.items) + " values in one CBOR item");
    }
    const auto first = in_.get<uint8_t>();
    const auto major = static_cast<Major>(first >> 5);
    if (major == simple) return float_or_simple(first);
    const uint64_t n = argument(first & 31);
    if ((major == array || major == map) && depth >= limits_.depth) {
      in_.fail("is nested deeper than " + std::to_string(limits_.depth));
    }
    switch (major) {
      case unsigned_int:
        break;
      case negative_int:
        if (n >> 63 != 0) in_.fail("has an integer below -2^63");
        break;
      case byte_string:
        in_.get_bytes(n);
        break;
      case text_string:
        text(n);
        break;
      case array:
        for (uint64_t i = 0; i < n; ++i) item(depth + 1);
        break;
      case map:
        entries(n, depth + 1);
        break;
      default:
        in_.fail("has a tag, which is not allowed here");
    }
  }

  void entries(uint64_t n, unsigned depth) {
    ByteView last;
    for (uint64_t i = 0; i < n; ++i) {
      const size_t begin = in_.position();
      const auto first = in_.get<uint8_t>();
      if (first >> 5 != text_string) in_.fail("has a map key that is not text");
      text(argument(first & 31));
      const ByteView key = whole_.subspan(begin, in_.position() - begin);
      if (i > 0 && !std::lexicographical_compare(last.begin(), last.end(), key.begin(), key.end())) {
        in_.fail("has map keys that are repeated or not sorted");
      }
      last = key;
      item(depth);
    }
  }

  void float_or_simple(uint8_t first) {
    if (first == kFalse || first == kTrue || first == kNull) return;
    if (first == kHalf) {
      const auto bits = static_cast<uint16_t>(big_endian(in_.get_bytes(2)));
      if ((bits & 0x7FFF) > 0x7C00 && bits != kHalfNan) in_.fail("has a NaN that is not the canonical one");
    } else if (first == kSingle) {
      const auto bits = static_cast<uint32_t>(big_endian(in_.get_bytes(4)));
      if (exact_half(std::bit_cast<float>(bits))) in_.fail("has a float that is not in its shortest form");
    } else if (first == kDouble) {
      if (exact_single(std::bit_cast<double>(big_endian(in_.get_bytes(8))))) {
        in_.fail("has a float that is not in its shortest form");
      }
    } else {
      in_.fail("has a simple value other than false, true and null");
    }
  }

  ByteView whole_;
  ByteReader in_;
  const CborLimits& limits_;
  size_t items_ = 0;
};

void put_big_endian(Bytes& out, uint64_t value, unsigned width) {
  while (width-- > 0) out.push_back(static_cast<std::byte>(value >> (8 * width)));
}

void put_head(Bytes& out, Major major, uint64_t n) {
  const auto lead = [&](unsigned info) { out.push_back(static_cast<std::byte>(major << 5 | info)); };
  if (n < 24) return lead(static_cast<unsigned>(n));
  const unsigned log = n <= 0xFF ? 0 : n <= 0xFFFF ? 1 : n <= 0xFFFFFFFF ? 2 : 3;
  lead(24 + log);
  put_big_endian(out, n, 1u << log);
}

void put_float(Bytes& out, double value) {
  const auto single = exact_single(value);
  const auto half = single ? exact_half(*single) : std::nullopt;
  out.push_back(static_cast<std::byte>(half ? kHalf : single ? kSingle : kDouble));
  if (half) return put_big_endian(out, *half, 2);
  if (single) return put_big_endian(out, std::bit_cast<uint32_t>(*single), 4);
  put_big_endian(out, std::bit_cast<uint64_t>(value), 8);
}

[[noreturn]] void cannot_write(const std::string& text) {
  throw Error(Exit::bug, "a value cannot be written as CBOR: " + text);
}

void put_text(Bytes& out, const std::string& text) {
  if (!is_utf8(text)) cannot_write("its text is not UTF-8");
  put_head(out, text_string, text.size());
  put_bytes(out, as_bytes(text));
}

void put_item(Bytes& out, const Cbor& value, unsigned depth) {
  if ((value.is_array() || value.is_object()) && depth >= CborLimits{}.depth) cannot_write("it is nested too deep");
  switch (value.type()) {
    case Cbor::value_t::null:
      return out.push_back(std::byte{kNull});
    case Cbor::value_t::boolean:
      return out.push_back(std::byte{value.get<bool>() ? kTrue : kFalse});
    case Cbor::value_t::number_unsigned:
      return put_head(out, unsigned_int, value.get<uint64_t>());
    case Cbor::value_t::number_integer: {
      const auto n = value.get<int64_t>();
      return n >= 0 ? put_head(out, unsigned_int, static_cast<uint64_t>(n))
                    : put_head(out, negative_int, ~static_cast<uint64_t>(n));
    }
    case Cbor::value_t::number_float:
      return put_float(out, value.get<double>());
    case Cbor::value_t::string:
      return put_text(out, value.get_ref<const std::string&>());
    case Cbor::value_t::binary: {
      const auto& binary = value.get_binary();
      if (binary.has_subtype()) cannot_write("it has a tag");
      put_head(out, byte_string, binary.size());
      return put_bytes(out, std::as_bytes(std::span(binary)));
    }
    case Cbor::value_t::array:
      put_head(out, array, value.size());
      for (const Cbor& element : value) put_item(out, element, depth + 1);
      return;
    case Cbor::value_t::object: {
      // The library sorts keys as text; CBOR sorts them encoded, which is by length first.
      std::vector<Cbor::const_iterator> entries;
      for (auto it = value.begin(); it != value.end(); ++it) entries.push_back(it);
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return a.key().size() < b.key().size(); });
      put_head(out, map, entries.size());
      for (const auto& entry : entries) {
        put_text(out, entry.key());
        put_item(out, entry.value(), depth + 1);
      }
      return;
    }
    default:
      cannot_write("it is of a kind that CBOR does not have");
  }
}

}  // namespace

void check_cbor(ByteView bytes, std::string_view what, const CborLimits& limits) {
  if (bytes.size() > limits.size) {
    throw Error(Exit::limit, std::string(what) + " takes " + std::to_string(bytes.size()) + " bytes; at most " +
                                 std::to_string(limits.size) + " are read");
  }
  Checker(bytes, what, limits).check();
}

Cbor parse_cbor(ByteView bytes, std::string_view what, const CborLimits& limits) {
  check_cbor(bytes, what, limits);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  try {
    return Cbor::from_cbor(data, data + bytes.size());
  } catch (const nlohmann::json::exception& error) {
    throw Error(Exit::bad_input, std::string(what) + " is not CBOR: " + error.what());
  }
}

Bytes write_cbor(const Cbor& value) {
  Bytes out;
  put_item(out, value, 0);
  return out;
}

}  // namespace gradcodec
