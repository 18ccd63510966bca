// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/writer.h"

#include <algorithm>

#include "format/dumps/hdf5.h"
#include "format/dumps/hdf5_protocol.h"
#include "format/hdf5/driver.h"

namespace gradcodec::hdf5 {
namespace {

// Attributes of this size and more need the file format of HDF5 1.8; the older one is read by more programs. It allows
// 64 KiB with the attribute's description.
constexpr uint64_t kLargeAttribute = 60'000;

// The chunk size to aim for where a dataset can grow and so has to be chunked, in bytes.
constexpr uint64_t kGoodChunkSize = 1 << 20;

uint64_t stored_size(const Attribute& attribute) {
  const Values& values = attribute.values;
  return values.type.kind == TypeSpec::Kind::variable_text ? 16 * values.texts.size() : values.bytes.size();
}

bool has_large(const std::vector<Attribute>& attributes) {
  return std::any_of(attributes.begin(), attributes.end(),
                     [](const Attribute& attribute) { return stored_size(attribute) >= kLargeAttribute; });
}

bool has_large_attributes(const Tree& tree) {
  for (const auto& [path, group] : tree.groups) {
    if (has_large(group.attributes)) return true;
    for (const Link& link : group.links) {
      if (has_large(link.record.attributes)) return true;
    }
  }
  return std::any_of(tree.tensors.begin(), tree.tensors.end(),
                     [](const auto& entry) { return has_large(entry.second.attributes); });
}

unsigned order_flags(Order order) {
  if (order == Order::none) return 0;
  return H5P_CRT_ORDER_TRACKED | (order == Order::indexed ? static_cast<unsigned>(H5P_CRT_ORDER_INDEXED) : 0u);
}

// Properties that groups, the root (through the file) and datasets share. No times: equal input gives equal bytes.
void set_object_properties(hid_t creation, Order attribute_order, const Place& place) {
  must(H5Pset_obj_track_times(creation, false), "create", place);
  must(H5Pset_attr_creation_order(creation, order_flags(attribute_order)), "create", place);
}

void set_group_properties(hid_t creation, const GroupRecord& group, const Place& place) {
  set_object_properties(creation, group.attribute_order, place);
  must(H5Pset_link_creation_order(creation, order_flags(group.link_order)), "create", place);
}

std::vector<hsize_t> chunk_of(const std::vector<uint64_t>& shape, uint64_t item_size) {
  std::vector<hsize_t> chunk;
  double size = static_cast<double>(item_size);
  for (const uint64_t dim : shape) {
    chunk.push_back(std::clamp<uint64_t>(dim, 1, 1 << 30));
    size *= static_cast<double>(chunk.back());
  }
  // Outer dimensions first, so that a chunk stays a run of the file's order.
  for (hsize_t& dim : chunk) {
    while (dim > 1 && size > static_cast<double>(kGoodChunkSize)) {
      const hsize_t half = (dim + 1) / 2;
      size = size / static_cast<double>(dim) * static_cast<double>(half);
      dim = half;
    }
  }
  return chunk;
}

void check_max_shape(const std::vector<uint64_t>& shape, const std::vector<uint64_t>& largest, const Place& place) {
  bool fits = shape.size() == largest.size() && !shape.empty();
  for (size_t d = 0; fits && d < shape.size(); ++d) fits = largest[d] >= shape[d];
  if (!fits) {
    throw Error(Exit::bad_input, "the tree record has a largest shape for '" + escaped(place.object) +
                                     "' that its shape does not fit in");
  }
}

}  // namespace

Writer::Writer(int fd, std::vector<TensorInfo> tensors, ByteView tree)
    : tensors_(std::move(tensors)), places_(tensors_.size(), kNoPlace) {
  const bool with_tree = !tree.empty();
  if (with_tree) tree_ = parse_tree(tree);
  plan_ = make_plan(tensors_, with_tree ? &tree_ : nullptr);
  set_up_library();
  link_names_ = own(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "create", {""});
  must(H5Pset_char_encoding(link_names_.get(), H5T_CSET_UTF8), "create", {""});
  create_file(fd);
  const Handle root = own(H5Gopen2(file_.get(), "/", H5P_DEFAULT), H5Gclose, "create", {""});
  created_.insert("");
  fill_group(root.get(), plan_.root, "");
  for (const auto& [path, target] : late_links_) {
    if (created_.contains(target)) make_hard_link(path, target);
  }
  put_order(root.get());
}

void Writer::open(size_t ordinal) {
  const TensorInfo& info = tensors_.at(ordinal);
  const Place place{plan_.paths[ordinal], Exit::io};
  const char* path = plan_.paths[ordinal].c_str();
  close();
  Handle dataset = own(H5Dopen2(file_.get(), path, H5P_DEFAULT), H5Dclose, "open", place);
  const Handle creation = own(H5Dget_create_plist(dataset.get()), H5Pclose, "open", place);
  const Handle how = access_in_order(creation.get(), info.shape, info.dtype.item_size(), place);
  dataset.reset();
  dataset = own(H5Dopen2(file_.get(), path, how.get()), H5Dclose, "open", place);
  type_ = own(H5Dget_type(dataset.get()), H5Tclose, "open", place);
  elements_.emplace(std::move(dataset), info.shape, path);
  open_ = ordinal;
}

void Writer::write(size_t ordinal, uint64_t first, ByteView elements) {
  if (!elements_ || open_ != ordinal) open(ordinal);
  const uint64_t item_size = tensors_[ordinal].dtype.item_size();
  elements_->write({first, elements.size() / item_size}, type_.get(), item_size, elements.data());
}

void Writer::close() {
  if (elements_) elements_->flush();
  elements_.reset();
  type_.reset();
}

void Writer::finish() {
  close();
  link_names_.reset();
  // Closing reports no failure through a handle, so all is written before.
  must(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "write", {"", Exit::io});
  file_.reset();
}

void Writer::create_file(int fd) {
  const Handle creation = own(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "create", {""});
  const Handle how = access_by_descriptor(fd, 0, true);
  set_group_properties(creation.get(), plan_.root.group, {""});
  if (has_large_attributes(tree_) || 4 * tensors_.size() >= kLargeAttribute) {
    must(H5Pset_libver_bounds(how.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), "create", {""});
  }
  file_ = own(H5Fcreate(kFileName, H5F_ACC_TRUNC, creation.get(), how.get()), H5Fclose, "create", {"", Exit::io});
}

void Writer::fill_group(hid_t group, const Node& node, const std::string& path) {
  for (const Attribute& attribute : node.group.attributes) write_attribute(group, attribute, {path});
  for (const auto& [name, child] : node.ordered()) {
    const std::string child_path = path.empty() ? *name : path + "/" + *name;
    if (child->kind == Node::Kind::group) {
      make_group(group, *name, *child, child_path);
    } else if (child->kind == Node::Kind::tensor) {
      make_tensor(group, *name, child->first_tensor, child_path);
    } else {
      make_link(group, *name, child->link, child_path);
    }
  }
}

void Writer::make_group(hid_t parent, const std::string& name, const Node& node, const std::string& path) {
  Handle group;
  {
    const Handle creation = own(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "create", {path});
    set_group_properties(creation.get(), node.group, {path});
    group = own(H5Gcreate2(parent, name.c_str(), link_names_.get(), creation.get(), H5P_DEFAULT), H5Gclose, "create",
                {path});
  }
  created_.insert(path);
  fill_group(group.get(), node, path);
}

void Writer::make_tensor(hid_t parent, const std::string& name, size_t ordinal, const std::string& path) {
  const TensorInfo& info = tensors_[ordinal];
  static const DatasetRecord kPlain;
  const auto it = tree_.tensors.find(info.name);
  const DatasetRecord& record = it == tree_.tensors.end() ? kPlain : it->second;
  // A tensor may come back as another dtype than it had: then its exact type is lost.
  const bool exact = record.type && record.type->dtype() == info.dtype;
  const TypeSpec spec = exact ? *record.type : TypeSpec::of(info.dtype);
  const Handle dataset = make_dataset(parent, name, spec, info.shape, record, path, true);
  const haddr_t offset = H5Dget_offset(dataset.get());
  if (offset != HADDR_UNDEF) places_[ordinal] = offset;
  if (path == info.name) return;
  Values exact_name{.type = {}, .shape = std::vector<uint64_t>{}, .texts = {info.name}};
  exact_name.type.kind = TypeSpec::Kind::variable_text;
  exact_name.type.padding = TypeSpec::Padding::null_terminated;
  exact_name.type.utf8 = true;
  write_attribute(dataset.get(), {kNameAttribute, std::move(exact_name)}, {path});
}

Handle Writer::make_dataset(hid_t parent, const std::string& name, const TypeSpec& spec,
                            const std::optional<std::vector<uint64_t>>& shape, const DatasetRecord& record,
                            const std::string& path, bool is_tensor) {
  const Place place{path};
  const bool variable = spec.kind == TypeSpec::Kind::variable_text;
  const Handle type = make_type(spec, place);
  const Handle creation = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create", place);
  set_object_properties(creation.get(), record.attribute_order, place);
  const bool grows = shape && record.max_shape && *record.max_shape != *shape;
  if (grows) {
    check_max_shape(*shape, *record.max_shape, place);
    const std::vector<hsize_t> chunk = chunk_of(*shape, variable ? 16 : spec.dtype().item_size());
    must(H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()), "create", place);
  } else if (is_tensor) {  // it has its place at once, for others to write to
    must(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "create", place);
  }
  if (record.fill && !variable && record.fill->dtype == spec.dtype()) {
    must(H5Pset_fill_value(creation.get(), type.get(), record.fill->bytes.data()), "create", place);
  }
  const Handle space = make_space(shape, grows ? &*record.max_shape : nullptr, place);
  Handle dataset =
      own(H5Dcreate2(parent, name.c_str(), type.get(), space.get(), link_names_.get(), creation.get(), H5P_DEFAULT),
          H5Dclose, "create", place);
  created_.insert(path);
  for (const Attribute& attribute : record.attributes) write_attribute(dataset.get(), attribute, place);
  return dataset;
}

void Writer::make_link(hid_t parent, const std::string& name, const Link& link, const std::string& path) {
  switch (link.kind) {
    case Link::Kind::child:
      break;
    case Link::Kind::soft:
      must(H5Lcreate_soft(link.target.c_str(), parent, name.c_str(), link_names_.get(), H5P_DEFAULT), "create link",
           {path});
      break;
    case Link::Kind::hard:
      if (created_.contains(link.target)) {
        make_hard_link(path, link.target);
      } else {
        late_links_.emplace_back(path, link.target);
      }
      break;
    case Link::Kind::dataset: {
      Handle dataset = make_dataset(parent, name, link.values.type, link.values.shape, link.record, path, false);
      const Handle type = make_type(link.values.type, {path});
      if (!link.values.shape) break;
      write_values(Elements(std::move(dataset), *link.values.shape, path), type.get(), link.values);
      break;
    }
  }
}

void Writer::make_hard_link(const std::string& path, const std::string& target) {
  const std::string from = "/" + target;
  must(H5Lcreate_hard(file_.get(), from.c_str(), file_.get(), path.c_str(), link_names_.get(), H5P_DEFAULT),
       "create link", {path});
}

void Writer::put_order(hid_t root) {
  if (std::is_sorted(plan_.order.begin(), plan_.order.end())) return;
  Values order{.type = TypeSpec::of({DType::u4, ""}), .shape = std::vector<uint64_t>{plan_.order.size()}};
  for (const size_t ordinal : plan_.order) put(order.bytes, static_cast<uint32_t>(ordinal));
  write_attribute(root, {kOrderAttribute, std::move(order)}, {""});
}

}  // namespace gradcodec::hdf5
