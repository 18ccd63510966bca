// Little-endian bytes in memory: checked reading, appending.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "codec/error.h"
#include "codec/little_endian.h"

namespace gradcodec {

static_assert(sizeof(size_t) == 8, "gradcodec is written for 64-bit machines: sizes of files are sizes in memory too");

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

inline ByteView as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// Appends the `sizeof(T)` little-endian bytes of an integer or a float's bits.
template <typename T>
void put(Bytes& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  store_little(value, out.data() + at);
}

inline void put_bytes(Bytes& out, ByteView bytes) {
  if (bytes.empty()) return;
  out.insert(out.end(), bytes.data(), bytes.data() + bytes.size());
}

// LEB128: seven bits a byte, low first. `value` is below 2^63, so at most nine bytes.
inline void put_varint(Bytes& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<std::byte>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<std::byte>(value));
}

// Reads from a block of memory, front to back. Each call throws Error(bad_input) rather than pass the end. `what` names
// the block in messages.
class ByteReader {
 public:
  ByteReader(ByteView bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  size_t left() const { return bytes_.size() - at_; }
  size_t position() const { return at_; }

  template <typename T>
  T get() {
    static_assert(std::is_arithmetic_v<T>);
    return load_little<T>(get_bytes(sizeof(T)).data());
  }

  // The next byte, which stays where it is.
  std::byte peek() const {
    if (left() == 0) fail("ends too early: a byte expected");
    return bytes_[at_];
  }

  // All that is left, which stays where it is.
  ByteView rest() const { return bytes_.subspan(at_); }

  // The next `n` bytes, as a view into the block.
  ByteView get_bytes(uint64_t n) {
    if (n > left())
      fail("ends too early: " + std::to_string(n) + " bytes expected, " + std::to_string(left()) + " left");
    const ByteView out = bytes_.subspan(at_, static_cast<size_t>(n));
    at_ += static_cast<size_t>(n);
    return out;
  }

  std::string get_text(uint64_t n) {
    const ByteView text = get_bytes(n);
    return std::string(reinterpret_cast<const char*>(text.data()), text.size());
  }

  // LEB128 in its shortest form, below 2^63.
  uint64_t get_varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
      const auto byte = get<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift > 0) fail("holds a number that is not in its shortest form");
        return value;
      }
    }
    fail("holds a number of 2^63 or more");
  }

  void expect_end() const {
    if (left() != 0) fail("has " + std::to_string(left()) + " bytes more than its content explains");
  }

  [[noreturn]] void fail(const std::string& text) const {
    throw Error(Exit::bad_input, what_ + " " + text + " (at its byte " + std::to_string(at_) + ")");
  }

 private:
  ByteView bytes_;
  std::string what_;
  size_t at_ = 0;
};

}  // namespace gradcodec
