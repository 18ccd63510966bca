// SPDX-License-Identifier: Apache-2.0
#include "format/partners.h"

#include <unordered_map>

#include "codec/error.h"

namespace gradcodec {
namespace {

void check_pair(const TensorInfo& ours, const TensorInfo& theirs) {
  const auto check = [&](bool good, const std::string& what, const std::string& here, const std::string& there) {
    if (good) return;
    throw Error(Exit::bad_input, "has the " + what + " " + here + " in the file and " + there +
                                     " in the dump: compare with the dump that the file was made from")
        .in_tensor(ours.name);
  };
  check(ours.shape == theirs.shape, "shape", shape_text(ours.shape), shape_text(theirs.shape));
  const bool floats = ours.dtype.is_float() && theirs.dtype.is_float();
  check(floats || ours.dtype == theirs.dtype, "type", ours.dtype.name(), theirs.dtype.name());
}

}  // namespace

Partners match_tensors(const Schema& schema, const Source& dump) {
  Partners out;
  out.in_dump.resize(schema.tensors.size());
  std::unordered_map<std::string_view, size_t> ours;
  for (size_t i = 0; i < schema.tensors.size(); ++i) ours.emplace(schema.tensors[i].info.name, i);
  const std::vector<TensorInfo>& theirs = dump.tensors();
  for (size_t i = 0; i < theirs.size(); ++i) {
    const auto found = ours.find(theirs[i].name);
    if (found == ours.end()) {
      out.only_in_dump.push_back(theirs[i].name);
    } else {
      check_pair(schema.tensors[found->second].info, theirs[i]);
      out.in_dump[found->second] = i;
    }
  }
  for (size_t i = 0; i < schema.tensors.size(); ++i) {
    if (!out.in_dump[i]) out.only_in_file.push_back(schema.tensors[i].info.name);
  }
  return out;
}

}  // namespace gradcodec
