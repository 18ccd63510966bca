// Finding out what an HDF5 file holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "format/dumps/hdf5_protocol.h"
#include "format/dumps/tree.h"
#include "format/hdf5/io.h"
#include "format/hdf5/library.h"

namespace gradcodec::hdf5 {

Order order_of(unsigned creation_order_flags);

struct Found {
  TensorInfo info;
  std::string path;
  // Where its elements stand in the file as they are, but for the order of the bytes of words of `word_size`, if that
  // is not 0. kNoPlace: the library has to read them.
  uint64_t offset = kNoPlace;
  size_t word_size = 0;
};

// Goes through a file once, from its root.
class Walker {
 public:
  // `dropped`: null for refusing what is unsupported.
  Walker(hid_t file, std::vector<std::string>* dropped) : file_(file), dropped_(dropped) {}

  void walk();

  std::vector<Found> tensors;  // in the order of tensors
  Tree tree;

 private:
  struct Name {
    std::string name;
    H5L_type_t type;
  };

  bool walk_group(hid_t group, const std::string& path, unsigned depth);
  std::optional<Link> visit_link(hid_t group, const Name& name, const std::string& path, unsigned depth,
                                 bool* has_tensors);
  std::optional<Link> visit_object(hid_t group, const std::string& name, const std::string& path, unsigned depth,
                                   bool* has_tensors);
  Link soft_link(hid_t group, const std::string& name, const std::string& path);
  std::optional<Link> visit_dataset(Handle dataset, const std::string& name, const std::string& path);
  void add_tensor(hid_t dataset, const FileType& type, std::vector<uint64_t> shape, DatasetRecord record,
                  std::string name, const std::string& path);
  void read_creation(hid_t dataset, hid_t creation, const FileType& type, DatasetRecord& record, const Place& place);
  void look_at_storage(hid_t dataset, hid_t creation, const FileType& type, Found& found);
  std::vector<Attribute> read_attributes(hid_t object, const std::string& path, Order order, std::string* name);
  void take_order(const Attribute& attribute);
  void apply_order();

  // Runs `visit`; if it finds something unsupported, that is left out or refused. `what` names it: "dataset 'a/b'".
  template <typename Visit>
  bool try_visit(const std::string& what, Visit visit);

  hid_t file_;
  std::vector<std::string>* dropped_;
  Budget budget_;
  std::map<ObjectId, std::optional<std::string>> seen_;  // the path of each object, or nothing if it was left out
  std::vector<uint64_t> order_;
};

}  // namespace gradcodec::hdf5
