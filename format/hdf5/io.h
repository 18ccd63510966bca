// Reading and writing elements, in C order, and small arrays whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "format/hdf5/library.h"
#include "format/hdf5/types.h"

namespace gradcodec::hdf5 {

// A box of a dataset: what one call of the library reads.
struct Slab {
  std::vector<hsize_t> start, count;
  uint64_t size;  // elements
};

// The boxes that make up `range` of an array of `shape`, in C order: at most 2 * rank. The range lies in the array.
std::vector<Slab> slabs_of(const std::vector<uint64_t>& shape, Range range);

// The elements of an open dataset.
class Elements {
 public:
  Elements(Handle dataset, std::vector<uint64_t> shape, std::string name);
  hid_t dataset() const { return dataset_.get(); }

  // `type` is that of the dataset in the file; `out` and `in` hold range.count elements of `item_size` bytes.
  void read(Range range, hid_t type, uint64_t item_size, std::byte* out, hid_t transfer = H5P_DEFAULT) const;
  void write(Range range, hid_t type, uint64_t item_size, const std::byte* in) const;
  // To be called after writing: what is written when a dataset is closed fails unseen.
  void flush() const;

 private:
  template <typename Call>
  void for_each_slab(Range range, Call call) const;

  Handle dataset_, space_;
  std::vector<uint64_t> shape_;
  std::string name_;
};

// Largest HDF5 chunk that is read: it is held whole in memory.
inline constexpr uint64_t kMaxChunkSize = uint64_t{256} << 20;

// How to open a dataset so that going through it in C order unpacks each chunk once: a cache of some rows of chunks, of
// kMaxChunkSize bytes at most (past that, chunks are unpacked again).
Handle access_in_order(hid_t creation, const std::vector<uint64_t>& shape, uint64_t item_size, const Place& place);

// Counts what goes into the tree record. Throws Error(limit) past kMaxTreeSize.
class Budget {
 public:
  void take(uint64_t bytes);
  uint64_t left() const { return left_; }

 private:
  uint64_t left_ = kMaxTreeSize;
};

// The dimensions of a dataspace; nothing for the null dataspace.
std::optional<std::vector<uint64_t>> shape_of(hid_t space, const Place& place);

// What read_type throws, and Error(limit) for what is too large to keep.
Values read_attribute(hid_t attribute, Budget& budget, const Place& place);
// A dataset of variable-length strings, or of the null dataspace.
Values read_values(Handle dataset, const FileType& type, std::optional<std::vector<uint64_t>> shape, Budget& budget,
                   const Place& place);

void write_attribute(hid_t object, const Attribute& attribute, const Place& place);
void write_values(const Elements& elements, hid_t type, const Values& values);

// Creates the dataspace. `max_shape` may be null.
Handle make_space(const std::optional<std::vector<uint64_t>>& shape, const std::vector<uint64_t>* max_shape,
                  const Place& place);

}  // namespace gradcodec::hdf5
