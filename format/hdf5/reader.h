// An HDF5 file, open for reading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/hdf5/io.h"
#include "format/hdf5/walk.h"

namespace gradcodec::hdf5 {

// The elements of one tensor.
class OpenTensor {
 public:
  OpenTensor(Elements elements, FileType type, bool zero_first)
      : elements_(std::move(elements)), type_(std::move(type)), zero_first_(zero_first) {}

  // `range` lies in the tensor; `out` holds its elements, in C order, little-endian. Throws Error.
  void read(Range range, std::span<std::byte> out) const;

 private:
  Elements elements_;
  FileType type_;
  bool zero_first_;
};

// What it says of names, shapes and places is not checked against one another: format/dumps/hdf5_source.cc does, which
// cannot believe it anyway.
class Reader {
 public:
  // `size` is that of the file; the descriptor stays the caller's. `dropped` receives a line for each unsupported
  // thing; null for refusing them. Throws Error as open_hdf5 does.
  Reader(int fd, uint64_t size, std::vector<std::string>* dropped);

  const std::vector<Found>& tensors() const { return tensors_; }
  const Tree& tree() const { return tree_; }

  // The result must not outlive the reader. Throws Error.
  std::unique_ptr<OpenTensor> open(size_t ordinal) const;

 private:
  Handle file_;
  std::vector<Found> tensors_;
  Tree tree_;
};

}  // namespace gradcodec::hdf5
