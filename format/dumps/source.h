// Where tensors come from: an .npy, .npz or HDF5 file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codec/bytes.h"
#include "codec/tensor.h"

namespace gradcodec {

// The numbers are on disk (container, SCHEMA): what kind of dump a message was made from.
enum class DumpKind : uint8_t { npy = 1, npz = 2, hdf5 = 3 };

// One tensor, open for reading.
class TensorData {
 public:
  virtual ~TensorData() = default;

  // The elements of `range`, in C order, little-endian, into `out` of exactly range.count * item size bytes. Several
  // threads may read at once. Throws Error: bad_input if the file is damaged or too short, io if reading fails.
  virtual void read(Range range, std::span<std::byte> out) const = 0;

  // The same where they stand, if they stand in memory as they are; else nothing.
  virtual ByteView view(Range) const { return {}; }
};

// A dump, open for reading. What it lists is checked: every TensorInfo passes check_tensor_info, names are unique, and
// the bytes that a tensor's shape claims are there.
class Source {
 public:
  virtual ~Source() = default;
  virtual DumpKind kind() const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;  // in the dump's order

  // Opens tensor `ordinal`; the result must not outlive the source. May spool to a temporary file that lives as long as
  // the result. Not thread-safe.
  virtual std::unique_ptr<TensorData> open(size_t ordinal) = 0;

  // What the dump holds beside its tensors (groups, attributes, links, variable strings), as deterministic CBOR; see
  // dumps/tree.h. Empty for .npy and .npz.
  virtual Bytes tree() const { return {}; }
};

}  // namespace gradcodec
