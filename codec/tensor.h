// What a tensor is: its element type, its shape, and float32 values that can be read in any order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradcodec {

inline constexpr unsigned kMaxRank = 32;
inline constexpr size_t kMaxNameSize = 65535;

// A run of elements of one tensor, in C order.
struct Range {
  uint64_t first = 0, count = 0;
};

// Element type. In memory and in files elements are little-endian. `other` is a type that only `raw` carries, described
// by a text in NumPy's letters without byte order:
//   S<n> n bytes of text      U<n> n UTF-32 characters      V<n> n opaque bytes
//   M8[unit] m8[unit] times   f16 c32 long doubles
struct DType {
  // The numbers are on disk.
  enum Code : uint8_t {
    other = 0,
    f2 = 1,
    f4 = 2,
    f8 = 3,
    bf16 = 4,
    i1 = 5,
    i2 = 6,
    i4 = 7,
    i8 = 8,
    u1 = 9,
    u2 = 10,
    u4 = 11,
    u8 = 12,
    boolean = 13,  // one byte, 0 or 1
    c8 = 14,
    c16 = 15,
  };

  Code code = f4;
  std::string descriptor;  // of `other`; empty else

  // From "f4", "bf16", "i8", "bool", "c8", "S12", ... Throws Error(unsupported) on anything else; the text is quoted.
  static DType parse(std::string_view text);

  std::string name() const;    // what parse takes
  uint64_t item_size() const;  // bytes an element; 0 for S0, U0, V0
  unsigned word_size() const;  // bytes of the unit that byte order swaps: 4 for f4, c8 and U, 1 for S and V
  bool is_float() const { return code == f2 || code == f4 || code == f8 || code == bf16; }  // what lossy schemes take
  bool operator==(const DType&) const = default;
};

struct TensorInfo {
  std::string name;  // UTF-8, 1 to 65,535 bytes, unique in its dump
  DType dtype;
  std::vector<uint64_t> shape;  // rank 0 is one element

  uint64_t size() const;       // elements
  uint64_t byte_size() const;  // size * item size
};

std::string shape_text(std::span<const uint64_t> shape);  // 300x784, scalar

// Throws Error if this is no tensor: limit for names over 65,535 bytes and ranks over 32; bad_input for names that are
// empty or not UTF-8 without NUL, and for 2^63 bytes and more.
void check_tensor_info(const TensorInfo& info);

// The float32 values of a tensor. May be lazy: reading may convert, decode or compute. Reading from several threads at
// once is allowed.
class Tensor {
 public:
  virtual ~Tensor() = default;
  virtual uint64_t size() const = 0;
  virtual std::span<const uint64_t> shape() const = 0;

  // The values of `range`, which must lie in the tensor. `scratch` holds at least range.count floats; the result is
  // there or in memory of the tensor's own, and stays valid as long as both.
  virtual std::span<const float> read(Range range, std::span<float> scratch) const = 0;
};

}  // namespace gradcodec
