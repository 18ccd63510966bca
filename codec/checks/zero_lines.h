// Which rows and columns of a matrix hold nothing but zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/tensor.h"

namespace gradcodec {

// A matrix of rows x columns in C order, looked at in pieces. A value that is not finite is not zero. Takes a byte a
// row and a byte a column.
class ZeroLines {
 public:
  ZeroLines(uint64_t rows, uint64_t columns);

  // The values of `range`, one or more. Thread-safe.
  template <typename T>
  void look(Range range, std::span<const T> x);

  // Once everything has been looked at.
  uint64_t zero_rows() const;
  uint64_t zero_columns() const;

 private:
  std::vector<uint8_t> rows_, columns_;  // 1: some value is not zero
};

}  // namespace gradcodec
