// What an HDF5 file is going to hold, and where. Knows nothing of the library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codec/tensor.h"
#include "format/dumps/tree.h"

namespace gradcodec::hdf5 {

// A link of a group, and what it leads to.
struct Node {
  enum class Kind { group, tensor, link };  // link: all kinds of `Link` but child
  static constexpr size_t kNone = ~size_t{0};

  Kind kind = Kind::group;
  GroupRecord group;                                      // group
  std::map<std::string, std::unique_ptr<Node>> children;  // group
  size_t first_tensor = kNone;                            // group: the least ordinal in it; tensor: its ordinal
  Link link;                                              // link

  // The children in the order in which they are made, which is the order in which a reader finds them.
  std::vector<std::pair<const std::string*, const Node*>> ordered() const;
};

struct Plan {
  Node root;
  std::vector<std::string> paths;  // of each tensor
  std::vector<size_t> order;       // the ordinals of the tensors, as a reader finds them
};

// `tree` is null if there is none: then groups track the order of their links. Throws Error(bad_input) if the tree puts
// two things in one place.
Plan make_plan(const std::vector<TensorInfo>& tensors, const Tree* tree);

}  // namespace gradcodec::hdf5
