// Makes an HDF5 file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "format/hdf5/io.h"
#include "format/hdf5/plan.h"

namespace gradcodec::hdf5 {

class Writer {
 public:
  // Makes everything but the elements of tensors, in the empty file behind the descriptor, which stays the caller's.
  // `tree`: a tree record, or empty. Throws Error as make_hdf5_sink does.
  Writer(int fd, std::vector<TensorInfo> tensors, ByteView tree);

  // For each tensor where in the file its elements belong, in C order, little-endian, for others to write; kNoPlace if
  // they are to be given to `write`.
  const std::vector<uint64_t>& places() const { return places_; }

  // Whole elements of a tensor, which lie in it.
  void write(size_t ordinal, uint64_t first, ByteView elements);

  // Nothing can be called after it.
  void finish();

 private:
  void create_file(int fd);
  void fill_group(hid_t group, const Node& node, const std::string& path);
  void make_group(hid_t parent, const std::string& name, const Node& node, const std::string& path);
  void make_tensor(hid_t parent, const std::string& name, size_t ordinal, const std::string& path);
  Handle make_dataset(hid_t parent, const std::string& name, const TypeSpec& spec,
                      const std::optional<std::vector<uint64_t>>& shape, const DatasetRecord& record,
                      const std::string& path, bool is_tensor);
  void make_link(hid_t parent, const std::string& name, const Link& link, const std::string& path);
  void make_hard_link(const std::string& path, const std::string& target);
  void put_order(hid_t root);
  void open(size_t ordinal);
  void close();

  std::vector<TensorInfo> tensors_;
  std::vector<uint64_t> places_;
  Tree tree_;
  Plan plan_;
  std::set<std::string> created_;                                // paths of objects
  std::vector<std::pair<std::string, std::string>> late_links_;  // hard links whose target came later: path, target
  Handle file_, link_names_, type_;
  std::optional<Elements> elements_;  // of the tensor that was written to last, with its type
  size_t open_ = 0;                   // its ordinal
};

}  // namespace gradcodec::hdf5
