// What one side remembers of the tensors of a message, in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "codec/memory.h"
#include "codec/tensor.h"

namespace gradcodec {

class Remembered {
 public:
  Remembered() = default;

  // Zeros: the vectors of these names for each of the tensors. `memory`: most bytes that they may take. Throws
  // Error(limit) naming a tensor.
  Remembered(std::vector<std::string> vectors, const std::vector<TensorInfo>& tensors, uint64_t memory);
  Remembered(const Remembered&) = delete;
  Remembered& operator=(const Remembered&) = delete;
  Remembered(Remembered&&) = default;
  Remembered& operator=(Remembered&&) = default;

  const std::vector<std::string>& vectors() const { return names_; }
  size_t tensors() const { return entries_.size(); }
  const TensorInfo& info(size_t tensor) const { return entries_[tensor].info; }
  std::vector<double>& values(size_t tensor, size_t vector) { return entries_[tensor].vectors[vector]; }
  const std::vector<double>& values(size_t tensor, size_t vector) const { return entries_[tensor].vectors[vector]; }

  // Of a tensor that is remembered; null for others. What it refers to may be updated in place.
  const Memory* of(std::string_view tensor) const;

  // The Euclidean norm of the first vectors of all tensors together.
  double norm() const;

 private:
  struct Entry {
    TensorInfo info;
    std::vector<std::vector<double>> vectors;
    Memory memory;
  };
  std::vector<std::string> names_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace gradcodec
