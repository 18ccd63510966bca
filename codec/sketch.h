// Count sketches: linear tables of a tensor that are small, can be added, and say of each coordinate about what it is
// (Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", ICALP 2002). spec/schemes/countsketch.md
// is the definition.
//
//   S[i][b] = sum of sign_i(j) x_j over the coordinates j whose bucket in row i is b;   x_j ~ median_i sign_i(j)
//   S[i][b]
//
// What a server does with them: add the workers' (TableSum), look for the heaviest (`estimate`), and, where the
// table itself remembers (FetchSGD, arXiv 2007.07682), scale it and take out what was sent (`subtract`, `clear_where`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/bytes.h"
#include "codec/kernels/sketch.h"
#include "codec/scheme.h"

namespace gradcodec {

// What a cell is: a float32, or a whole number of units of 2^-exponent, whose sums are exact.
enum class CellType : uint8_t { f32, i64 };

inline constexpr std::string_view kSketchScheme = "countsketch";
inline constexpr uint32_t kMaxSketchExponent = 149;          // then every float32 is a whole number of units
inline constexpr uint64_t kMaxCells = uint64_t{1} << 26;     // rows times columns
inline constexpr uint64_t kMaxTableBytes = (1 << 28) - 256;  // what a frame holds, less what may stand beside it

// All that says which coordinate falls where, and what a cell means. Tables that agree in it can be added.
struct SketchLayout {
  uint32_t rows = 1;  // odd, at most kernels::kMaxSketchRows
  uint64_t cols = 0;  // 0 for a tensor of no elements, and only then
  CellType type = CellType::f32;
  uint32_t exponent = 0;     // of i64
  kernels::Draws hash = {};  // of row 0; row i has sub-stream i

  uint64_t cells() const { return rows * cols; }
  kernels::Draws hash_of(uint32_t row) const { return {hash.key, hash.ordinal, hash.tag + row}; }

  // In what they differ, for people: "5 rows and 7 rows"; empty if in nothing.
  std::string difference(const SketchLayout& other) const;

  // The probability that two given coordinates fall into one bucket, which is 1 / cols but for what 31 bits leave over.
  double collision() const;
};

// The nearest multiple of 2^-exponent, ties to even, which is a float32. `x` is finite.
float to_units(float x, uint32_t exponent);

// A sketch. What it holds between calls is what is stored: each call computes in float64 (or exactly) and rounds once.
// Throws Error(limit) where a cell would pass float32, or 63 bits.
class Table {
 public:
  // Of zeros. Throws Error(limit) if it is too large to be stored.
  explicit Table(const SketchLayout& layout);

  // Of a tensor. What is not regular counts as 0. Coordinates are added in rising order in float64 (f32), or as whole
  // numbers of units, to nearest, ties to even (i64); by inputs.loop, a row a job. Reads the tensor once.
  static Table of(const Tensor& tensor, const SketchLayout& layout, const Inputs& inputs);

  // Of a tensor that is 0 but for values[i], which is finite, at places[i], in rising order.
  static Table of(const SketchLayout& layout, std::span<const uint64_t> places, std::span<const float> values);

  // From the front of `in`, as `store` writes it; `layout` without its columns. `size`: elements of the tensor. Throws
  // Error(bad_input) on what no encoder stores.
  static Table parse(SketchLayout layout, uint64_t size, ByteReader& in);
  void store(Bytes& out) const;

  const SketchLayout& layout() const { return layout_; }

  // Throws Error(usage) if the layouts differ.
  void add(const Table& other);
  void subtract(const Table& other);

  // By a finite factor; of i64 a whole number, else Error(usage).
  void scale(double factor);

  // Cells that are not 0 in `other` become 0: what FetchSGD's program does with the sketch of what was sent, in place
  // of subtracting it. Drops what other coordinates have there.
  void clear_where(const Table& other);

  // What the table says of coordinates first .. first + out.size() - 1: the median over rows. Thread-safe.
  void estimate(uint64_t first, std::span<float> out) const;

  // About ||x||^2: the median over rows of the row's sum of squares, each in float64 in order of columns.
  double squares() const;

  std::span<const float> floats() const { return floats_; }        // of f32: row by row
  std::span<const int64_t> integers() const { return integers_; }  // of i64

 private:
  friend class TableSum;
  void estimate_floats(uint64_t first, std::span<float> out) const;
  void estimate_integers(uint64_t first, std::span<float> out) const;
  void round_from(std::span<const double> sums);

  SketchLayout layout_;
  std::vector<float> floats_;      // if f32
  std::vector<int64_t> integers_;  // if i64
};

using SumOfIntegers = __int128;  // no order of addition passes it

// Of many tables: in float64, in the order of the calls, rounded once at the end; of i64 exactly, and only the total
// must be what 63 bits hold, so that no order of the calls is refused that another is not.
class TableSum {
 public:
  explicit TableSum(const SketchLayout& layout);

  // `weight` times the table, for which float64 multiplies first, and which of i64 is a whole number of at most 2^53.
  // Throws Error(usage) if the layouts differ.
  void add(const Table& table, double weight = 1);

  // The sum times `factor`, which must be 1 for i64. Throws Error(limit) where a cell would not hold it.
  Table total(double factor = 1) const;

 private:
  SketchLayout layout_;
  std::vector<double> sums_;           // of f32
  std::vector<SumOfIntegers> wholes_;  // of i64
};

// The table of a tensor that went by countsketch, or of a sum of such, which lives as long as the decoder; null of
// another scheme.
const Table* table_of(const Decoder& decoder);

}  // namespace gradcodec
