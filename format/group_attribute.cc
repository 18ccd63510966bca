// SPDX-License-Identifier: Apache-2.0
#include "format/group_attribute.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "codec/float16.h"
#include "format/trace_names.h"

namespace gradcodec {
namespace {

// Groups around the object at `path`, nearest first; that of the step, if there is one, before all.
std::vector<std::string> groups_around(const std::string& path) {
  std::vector<std::string> groups;
  std::optional<std::string> step;
  for (size_t end = path.rfind('/'); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
    groups.push_back(path.substr(0, end));
    if (parse_trace_name(groups.back()).step) step = groups.back();  // the outermost is the step's own
  }
  groups.emplace_back();  // the root
  if (step) groups.insert(groups.begin(), *step);
  return groups;
}

template <typename T>
double number_at(const Bytes& bytes) {
  return static_cast<double>(load_little<T>(bytes.data()));
}

// Nothing if it is not one element of a type of numbers.
std::optional<double> number_of(const Values& values) {
  if (values.type.kind != TypeSpec::Kind::plain || values.size() != 1) return std::nullopt;
  const Bytes& bytes = values.bytes;
  if (bytes.size() != values.type.plain.item_size()) return std::nullopt;
  switch (values.type.plain.code) {
    case DType::f2:
      return float16_to_float32(static_cast<uint16_t>(number_at<uint16_t>(bytes)));
    case DType::bf16:
      return bfloat16_to_float32(static_cast<uint16_t>(number_at<uint16_t>(bytes)));
    case DType::f4:
      return number_at<float>(bytes);
    case DType::f8:
      return number_at<double>(bytes);
    case DType::i1:
      return number_at<int8_t>(bytes);
    case DType::i2:
      return number_at<int16_t>(bytes);
    case DType::i4:
      return number_at<int32_t>(bytes);
    case DType::i8:
      return number_at<int64_t>(bytes);
    case DType::u1:
      return number_at<uint8_t>(bytes);
    case DType::u2:
      return number_at<uint16_t>(bytes);
    case DType::u4:
      return number_at<uint32_t>(bytes);
    case DType::u8:
      return number_at<uint64_t>(bytes);
    default:
      return std::nullopt;
  }
}

}  // namespace

GroupAttribute::GroupAttribute(const Source& source, std::string name) : name_(std::move(name)) {
  if (source.kind() != DumpKind::hdf5) throw Error(Exit::usage, "only HDF5 dumps have attributes");
  if (const Bytes tree = source.tree(); !tree.empty()) tree_ = parse_tree(tree);
}

GroupAttribute::Number GroupAttribute::of(const TensorInfo& tensor) const {
  const auto record = tree_.tensors.find(tensor.name);
  const bool moved = record != tree_.tensors.end() && record->second.path;
  const std::vector<std::string> groups = groups_around(moved ? *record->second.path : tensor.name);
  const std::string quoted = "attribute '" + escaped(name_) + "'";
  for (const std::string& group : groups) {
    const auto found = tree_.groups.find(group);
    if (found == tree_.groups.end()) continue;
    for (const Attribute& attribute : found->second.attributes) {
      if (attribute.name != name_) continue;
      const std::optional<double> value = number_of(attribute.values);
      if (value) return {*value, "/" + group};
      throw Error(Exit::bad_input, quoted + " of group '/" + escaped(group) + "' is not a single number");
    }
  }
  throw Error(Exit::usage, "neither group '/" + escaped(groups[0]) + "' nor any around it has the " + quoted);
}

}  // namespace gradcodec
