// SPDX-License-Identifier: Apache-2.0
#include "codec/tensor.h"

#include <array>
#include <charconv>
#include <optional>

#include "codec/error.h"
#include "codec/utf8.h"

namespace gradcodec {
namespace {

struct Plain {
  std::string_view name;
  uint8_t item_size, word_size;
};

// By DType::Code.
constexpr std::array<Plain, 16> kPlain = {{
    {"", 0, 0},
    {"f2", 2, 2},
    {"f4", 4, 4},
    {"f8", 8, 8},
    {"bf16", 2, 2},
    {"i1", 1, 1},
    {"i2", 2, 2},
    {"i4", 4, 4},
    {"i8", 8, 8},
    {"u1", 1, 1},
    {"u2", 2, 2},
    {"u4", 4, 4},
    {"u8", 8, 8},
    {"bool", 1, 1},
    {"c8", 8, 4},
    {"c16", 16, 8},
}};

constexpr uint64_t kMaxItemSize = uint64_t{1} << 20;

// The number after the letter of S, U and V: digits only, no leading zero.
std::optional<uint64_t> item_count(std::string_view digits) {
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size() || n > kMaxItemSize) return std::nullopt;
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  return n;
}

bool is_time(std::string_view text) {
  if (text == "M8" || text == "m8") return true;
  if (text.size() < 5 || (text.substr(0, 3) != "M8[" && text.substr(0, 3) != "m8[") || text.back() != ']') return false;
  for (const char c : text.substr(3, text.size() - 4)) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) return false;
  }
  return text.size() <= 24;
}

}  // namespace

DType DType::parse(std::string_view text) {
  for (size_t code = 1; code < kPlain.size(); ++code) {
    if (kPlain[code].name == text) return {static_cast<Code>(code), ""};
  }
  const bool counted =
      !text.empty() && (text[0] == 'S' || text[0] == 'U' || text[0] == 'V') && item_count(text.substr(1));
  if (counted || is_time(text) || text == "f16" || text == "c32") return {other, std::string(text)};
  throw Error(Exit::unsupported, "element type '" + escaped(text) + "' is not supported");
}

std::string DType::name() const { return code == other ? descriptor : std::string(kPlain.at(code).name); }

uint64_t DType::item_size() const {
  if (code != other) return kPlain.at(code).item_size;
  if (descriptor == "f16") return 16;
  if (descriptor == "c32") return 32;
  if (descriptor[0] == 'M' || descriptor[0] == 'm') return 8;
  const uint64_t n = item_count(std::string_view(descriptor).substr(1)).value_or(0);
  return descriptor[0] == 'U' ? 4 * n : n;
}

unsigned DType::word_size() const {
  if (code != other) return kPlain.at(code).word_size;
  if (descriptor == "f16" || descriptor == "c32") return 16;
  if (descriptor[0] == 'M' || descriptor[0] == 'm') return 8;
  return descriptor[0] == 'U' ? 4 : 1;
}

uint64_t TensorInfo::size() const {
  uint64_t n = 1;
  for (const uint64_t dim : shape) n *= dim;
  return n;
}

uint64_t TensorInfo::byte_size() const { return size() * dtype.item_size(); }

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text;
  for (const uint64_t dim : shape) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text.empty() ? "scalar" : text;
}

void check_tensor_info(const TensorInfo& info) {
  const auto fail = [&](const std::string& text, Exit code = Exit::bad_input) {
    throw Error(code, text).in_tensor(info.name);
  };
  if (info.name.empty()) fail("a tensor's name is empty");
  if (info.name.size() > kMaxNameSize) fail("the name is longer than 65535 bytes", Exit::limit);
  if (!is_utf8(info.name) || info.name.find('\0') != std::string::npos) fail("the name is not UTF-8 text");
  if (info.shape.size() > kMaxRank) fail("rank " + std::to_string(info.shape.size()) + " is more than 32", Exit::limit);
  // Zero dimensions are multiplied as ones, so that {0, 2^40, 2^40} is refused too: no size computed later can wrap.
  uint64_t bytes = info.dtype.item_size() == 0 ? 1 : info.dtype.item_size();
  for (const uint64_t dim : info.shape) {
    if (__builtin_mul_overflow(bytes, dim == 0 ? 1 : dim, &bytes) || bytes >= uint64_t{1} << 63) {
      fail("the shape says 2^63 bytes or more");
    }
  }
}

}  // namespace gradcodec
