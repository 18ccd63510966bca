// Numbers that an HDF5 dump keeps beside its tensors, such as the loss of a training step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "format/dumps/source.h"
#include "format/dumps/tree.h"

namespace gradcodec {

// An attribute of groups: of that of a tensor's step (format/trace_names.h), else of the nearest around it.
class GroupAttribute {
 public:
  // Throws Error(usage) if `source` is of a kind that has no attributes.
  GroupAttribute(const Source& source, std::string name);

  struct Number {
    double value = 0;
    std::string group;  // that has it: "/step_000010"
  };

  // Throws Error(usage) if no group around the tensor has the attribute, Error(bad_input) if it is no single number.
  Number of(const TensorInfo& tensor) const;

 private:
  std::string name_;
  Tree tree_;
};

}  // namespace gradcodec
