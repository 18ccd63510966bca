// Which tensor of a dump is which of a message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "format/dumps/source.h"
#include "format/layout.h"

namespace gradcodec {

struct Partners {
  std::vector<std::optional<size_t>> in_dump;           // for each tensor of the schema, its number in the dump
  std::vector<std::string> only_in_file, only_in_dump;  // names of those that have none
};

// By name. Throws Error(bad_input) naming a tensor whose shape is another in the dump, or which is of floats in one and
// not in the other, or of two types that are not floats.
Partners match_tensors(const Schema& schema, const Source& dump);

}  // namespace gradcodec
