// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/npy_header.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "codec/error.h"

namespace gradcodec {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kMend = "; write the array again with numpy.save";

[[noreturn]] void fail_bad(const std::string& text) { throw Error(Exit::bad_input, text); }
[[noreturn]] void fail_unsupported(const std::string& text) { throw Error(Exit::unsupported, text); }

std::string quoted(std::string_view text) { return "'" + escaped(text) + "'"; }

// The Python literal inside a header. Only what a header may hold is understood: a dictionary of strings to a string,
// a bool and a tuple of numbers.
class HeaderText {
 public:
  HeaderText(std::string_view text, bool long_suffix) : text_(text), long_suffix_(long_suffix) {}

  // Descr, fortran_order and shape; all three must be there, each once, and nothing else.
  struct Values {
    std::string descr;
    bool fortran_order = false;
    std::vector<uint64_t> shape;
  };

  Values parse() {
    Values values;
    bool seen[3] = {};
    expect('{');
    while (!take('}')) {
      const size_t key = key_index(parse_string("a key"));
      if (std::exchange(seen[key], true)) fail("names the key '" + std::string(kKeys[key]) + "' twice");
      expect(':');
      if (key == 0) values.descr = parse_descr();
      if (key == 1) values.fortran_order = parse_bool();
      if (key == 2) values.shape = parse_shape();
      if (take(',')) continue;
      expect('}');
      break;
    }
    skip_space();
    if (at_ != text_.size()) fail("goes on after its closing brace");
    for (size_t key = 0; key < 3; ++key) {
      if (!seen[key]) fail("lacks the key '" + std::string(kKeys[key]) + "'");
    }
    return values;
  }

 private:
  static constexpr std::string_view kKeys[3] = {"descr", "fortran_order", "shape"};

  [[noreturn]] void fail(const std::string& text) const {
    fail_bad(".npy header " + text + " (at byte " + std::to_string(at_) + " of its text)" + std::string(kMend));
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n\f").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail("lacks a '" + std::string(1, c) + "'");
  }

  bool take_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  size_t key_index(std::string_view key) const {
    for (size_t i = 0; i < 3; ++i) {
      if (kKeys[i] == key) return i;
    }
    fail("has the key " + quoted(key) + "; only descr, fortran_order and shape are allowed");
  }

  std::string parse_string(const char* what) {
    skip_space();
    if (text_.substr(at_).starts_with("u'") || text_.substr(at_).starts_with("u\"")) ++at_;  // Python 2's unicode
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail(std::string("lacks ") + what + " in quotes");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("has a string without its closing quote");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    if (value.find_first_of("\\\r\n") != std::string_view::npos) fail("has an escape or a line break in a string");
    at_ = end + 1;
    return std::string(value);
  }

  std::string parse_descr() {
    if (take('[')) fail_unsupported("structured dtype not supported; save each field as an array of its own");
    if (take('(')) fail_unsupported("subarray dtype not supported; save it as a plain array of more dimensions");
    return parse_string("a descr");
  }

  bool parse_bool() {
    if (take_word("True")) return true;
    if (!take_word("False")) fail("says neither True nor False for fortran_order");
    return false;
  }

  std::vector<uint64_t> parse_shape() {
    std::vector<uint64_t> shape;
    expect('(');
    while (!take(')')) {
      shape.push_back(parse_dimension());
      if (shape.size() > kMaxRank) {
        throw Error(Exit::limit, "has more than " + std::to_string(kMaxRank) +
                                     " dimensions, which are the most that are kept: reshape the array to fewer");
      }
      if (take(',')) continue;
      if (shape.size() == 1) fail("has a shape that is no tuple: (n) where (n,) is meant");
      expect(')');
      break;
    }
    return shape;
  }

  uint64_t parse_dimension() {
    skip_space();
    const size_t first = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    const std::string_view digits = text_.substr(first, at_ - first);
    if (digits.empty()) fail("has a shape whose dimension is no number of 0 or more");
    if (digits.size() > 1 && digits[0] == '0') fail("has a dimension with a leading zero");
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || value >= uint64_t{1} << 63) fail("has a dimension of 2^63 or more");
    // Python 2 wrote long integers as 10L.
    if (long_suffix_ && at_ < text_.size() && text_[at_] == 'L') ++at_;
    return value;
  }

  std::string_view text_;
  bool long_suffix_;
  size_t at_ = 0;
};

// What NumPy calls b1 is bool here; bf16 is not NumPy's.
DType parse_type(std::string_view type, std::string_view descr) {
  if (type == "b1") return {DType::boolean, ""};
  if (type == "g2" || type == "E2" || type.find("bfloat16") != type.npos || type == "bf16") {
    fail_unsupported("descr " + quoted(descr) +
                     " is not NumPy's; if it is bfloat16, save array.view(numpy.uint16) and give --as-bf16");
  }
  if (type == "bool") fail_unsupported("descr " + quoted(descr) + " is not how numpy.save writes it ('|b1')");
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool numbered = type.size() > 1 && std::all_of(type.begin() + 1, type.end(), is_digit);
  const bool time = type[0] == 'M' || type[0] == 'm';
  if (!numbered && !time && type.size() > 1)
    fail_bad("descr " + quoted(descr) + " is no NumPy type" + std::string(kMend));
  try {
    return DType::parse(type);
  } catch (const Error&) {
    throw Error(Exit::unsupported, "element type of descr " + quoted(descr) +
                                       " is not supported; taken are f2 f4 f8 i1-i8 u1-u8 b1 c8 c16 S U V M8 m8 and "
                                       "long doubles of 16 bytes");
  }
}

void apply_descr(std::string_view descr, bool as_bf16, NpyHeader& header) {
  std::string_view type = descr;
  char order = '=';
  if (!type.empty() && std::string_view("<>=|").find(type[0]) != std::string_view::npos) {
    order = type[0];
    type.remove_prefix(1);
  }
  if (type.empty()) fail_bad("descr " + quoted(descr) + " names no element type" + std::string(kMend));
  if (type[0] == 'O') fail_unsupported("object arrays are pickles and are never loaded; save a numeric array");
  header.dtype = parse_type(type, descr);
  const bool two_bytes = header.dtype == DType{DType::u2, ""} || header.dtype == DType{DType::i2, ""} ||
                         header.dtype == DType{DType::other, "V2"};
  if (as_bf16 && two_bytes) header.dtype = {DType::bf16, ""};
  header.big_endian = order == '>' && header.dtype.word_size() > 1;
}

uint64_t read_little_endian(const std::function<void(std::span<std::byte>)>& read_next, size_t n) {
  uint64_t value = 0;
  read_next(std::as_writable_bytes(std::span(&value, 1)).first(n));
  return little(value);
}

std::string descr_of(const DType& dtype) {
  if (dtype.code == DType::boolean) return "|b1";
  // As ml_dtypes writes it; NumPy alone reads it as V2.
  if (dtype.code == DType::bf16) return "<V2";
  return (dtype.word_size() == 1 ? "|" : "<") + dtype.name();
}

}  // namespace

NpyHeader read_npy_header(uint64_t size, const std::function<void(std::span<std::byte>)>& read_next, bool as_bf16) {
  const auto need = [&](uint64_t expected) {
    if (size >= expected) return;
    fail_bad("cut in its .npy header: " + std::to_string(expected) + " bytes expected, " + std::to_string(size) +
             " present");
  };
  need(kMagic.size() + 2);
  char start[8];
  read_next(std::as_writable_bytes(std::span(start)));
  if (std::string_view(start, kMagic.size()) != kMagic) fail_bad("does not begin as an .npy array does (\\x93NUMPY)");
  const int major = static_cast<unsigned char>(start[6]), minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    fail_unsupported(".npy version " + std::to_string(major) + "." + std::to_string(minor) +
                     " is not supported; 1.0, 2.0 and 3.0 are");
  }
  const unsigned length_size = major == 1 ? 2 : 4;
  NpyHeader header;
  header.size = sizeof(start) + length_size;
  need(header.size);
  const uint64_t length = read_little_endian(read_next, length_size);
  header.size += length;
  need(header.size);
  if (length > kMaxNpyHeaderText) {
    throw Error(Exit::limit, ".npy header of " + std::to_string(length) + " bytes; at most " +
                                 std::to_string(kMaxNpyHeaderText) + " are read" + std::string(kMend));
  }
  std::string text(static_cast<size_t>(length), '\0');
  read_next(std::as_writable_bytes(std::span(text)));
  HeaderText::Values values = HeaderText(text, major < 3).parse();
  apply_descr(values.descr, as_bf16, header);
  header.fortran_order = values.fortran_order;
  header.shape = std::move(values.shape);
  return header;
}

Bytes make_npy_header(const TensorInfo& info) {
  std::string shape;
  for (const uint64_t dim : info.shape) shape += std::to_string(dim) + (info.shape.size() == 1 ? "," : ", ");
  if (info.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string text = "{'descr': '" + descr_of(info.dtype) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  // Elements start at a multiple of 64, for those who map the file. Rank 32 needs under 800 bytes: two count them.
  constexpr size_t kAlign = 64, kBefore = 10;
  const size_t total = (kBefore + text.size() + 1 + kAlign - 1) / kAlign * kAlign;
  text.resize(total - kBefore - 1, ' ');
  text += '\n';
  Bytes out;
  put_bytes(out, as_bytes(kMagic));
  put<uint8_t>(out, 1);
  put<uint8_t>(out, 0);
  put<uint16_t>(out, static_cast<uint16_t>(text.size()));
  put_bytes(out, as_bytes(text));
  return out;
}

}  // namespace gradcodec
