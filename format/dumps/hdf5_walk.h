// Finding out what an HDF5 file holds. Only for the hdf5_*.cc files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "format/dumps/hdf5_io.h"
#include "format/dumps/hdf5_library.h"
#include "format/dumps/tree.h"

namespace gradcodec::hdf5 {

Order order_of(unsigned creation_order_flags);

struct Found {
  TensorInfo info;
  std::string path;
};

// Goes through a file once, from its root. The caller holds a Lock.
class Walker {
 public:
  // `dropped`: null for refusing what is unsupported.
  Walker(hid_t file, uint64_t file_size, std::vector<std::string>* dropped)
      : file_(file), file_size_(file_size), dropped_(dropped) {}

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
  void check_storage(hid_t dataset, hid_t creation, const TensorInfo& info, const std::string& path);
  std::vector<Attribute> read_attributes(hid_t object, const std::string& path, Order order, std::string* name);
  void take_order(const Attribute& attribute);
  void apply_order();

  // Runs `visit`; if it finds something unsupported, that is left out or refused. `what` names it: "dataset 'a/b'".
  template <typename Visit>
  bool try_visit(const std::string& what, Visit visit);

  hid_t file_;
  uint64_t file_size_;
  std::vector<std::string>* dropped_;
  Budget budget_;
  std::map<ObjectId, std::optional<std::string>> seen_;  // the path of each object, or nothing if it was left out
  std::vector<uint64_t> order_;
};

}  // namespace gradcodec::hdf5
