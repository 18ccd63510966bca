// How large a tensor's values are expected to be: classes of its rows and columns (its first axis, and the others
// together), half octaves of their mean magnitude. For the coder `model`, and for steps that follow the scale.
// spec/line_scales.md has the bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/bytes.h"
#include "codec/scheme.h"
#include "codec/tensor.h"

namespace gradcodec {

// log2 of a positive normal float64 in units of 2^-16, within 3 of them, in integers.
int32_t fixed_log2_of(double x);

class LineScales {
 public:
  static constexpr uint32_t kClasses = 32;  // of a line: how many half octaves below the largest one it is, up to 30,
  static constexpr uint8_t kZero = 31;      // or that all its values are 0
  static constexpr uint32_t kSums = 61;     // of the classes of a row and a column that are not 0

  static constexpr uint64_t kWorth = 16;  // elements for each line, at least: else they are all one class

  // Reads the tensor once. Irregular values count as 0. Float64 sums in a written order, as scan.h has them: by chunks,
  // of a row as its stretches lie in them. Lines are told apart if inputs.rows says that there are rows, and both kinds
  // are long enough to pay.
  static LineScales measure(const Tensor& tensor, const Inputs& inputs, uint64_t worth = kWorth);

  // Takes what write wrote, of a tensor of inputs.size and inputs.rows. Throws Error(bad_input).
  static LineScales restore(ByteReader& stored, const Inputs& inputs, uint64_t worth = kWorth);

  // The base as a whole number, 2 z or -2 z - 1 as a varint; then the classes, if lines may be told apart.
  void write(Bytes& out) const;

  // Scales count in steps from here on. `step` is positive.
  void set_step(double step);

  // The largest scale over the step in sixteenths of an octave: that of a row and a column of class 0. A sum of classes
  // k means 8 k less.
  int32_t base() const { return base_; }

  // Of one step: whether telling lines apart, and storing that, is expected to take fewer bits than not to. After
  // measure and set_step.
  bool lines_pay() const;

  // All elements are of one class from here on, the mean's. After measure; before set_step.
  void forget_lines();

  bool has_lines() const { return !row_classes_.empty(); }

  // How many elements have each sum of classes, kSums numbers; of no scale, those left. One class: all are sum 0.
  std::vector<uint64_t> counts_of_sums() const;

  // visit(at, count, row class, column classes or null) for each stretch of a row in `range`, in order.
  template <typename Visit>
  void for_rows(Range range, const Visit& visit) const {
    if (!has_lines()) return visit(size_t{0}, static_cast<size_t>(range.count), uint8_t{0}, kNoClasses);
    const uint64_t cols = col_classes_.size();
    for (uint64_t at = 0; at < range.count;) {
      const uint64_t row = (range.first + at) / cols, col = (range.first + at) % cols;
      const uint64_t count = std::min(range.count - at, cols - col);
      visit(static_cast<size_t>(at), static_cast<size_t>(count), row_classes_[static_cast<size_t>(row)],
            col_classes_.data() + col);
      at += count;
    }
  }

  // of_sum[row class + column class] of the elements `range`, `zero` where either is kZero.
  template <typename T>
  void fill(Range range, std::span<const T> of_sum, T zero, std::span<T> out) const {
    for_rows(range, [&](size_t at, size_t count, uint8_t row, const uint8_t* cols) {
      if (cols == nullptr || row == kZero) {
        std::fill_n(out.data() + at, count, row == kZero ? zero : of_sum[0]);
        return;
      }
      std::array<T, kClasses> of_col;
      for (uint8_t col = 0; col < kZero; ++col) of_col[col] = of_sum[row + col];
      of_col[kZero] = zero;
      for (size_t i = 0; i < count; ++i) out[at + i] = of_col[cols[i]];
    });
  }

 private:
  static constexpr const uint8_t* kNoClasses = nullptr;

  void set_classes(std::span<const double> sums, double total, std::vector<uint8_t>& classes, int32_t& largest) const;

  uint64_t size_ = 0, rows_ = 0;  // rows_ 0: lines cannot be told apart
  int32_t base_ = 0;
  int64_t base_of_unit_ = 0, mean_of_unit_ = 0;
  std::vector<uint8_t> row_classes_, col_classes_;  // empty: all is one class
};

}  // namespace gradcodec
