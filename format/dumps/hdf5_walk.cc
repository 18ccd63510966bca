// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/hdf5_walk.h"

#include <cstring>

#include "codec/utf8.h"
#include "format/dumps/hdf5.h"

namespace gradcodec::hdf5 {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(Exit::unsupported, text); }

std::string quoted(const std::string& path) { return path.empty() ? "the root group" : "'" + escaped(path) + "'"; }

Order order_of(unsigned flags) {
  return (flags & H5P_CRT_ORDER_TRACKED) == 0 ? Order::none
         : (flags & H5P_CRT_ORDER_INDEXED)    ? Order::indexed
                                              : Order::tracked;
}

H5_index_t index_of(Order order) { return order == Order::none ? H5_INDEX_NAME : H5_INDEX_CRT_ORDER; }

// Exceptions must not pass through the library: a call-back catches them and says stop.
template <typename Action>
herr_t guarded(Action action) {
  try {
    action();
    return 0;
  } catch (...) {
    return -1;
  }
}

herr_t take_attribute_name(hid_t, const char* name, const H5A_info_t*, void* out) {
  return guarded([&] { static_cast<std::vector<std::string>*>(out)->emplace_back(name); });
}

void check_filters(hid_t creation, const Place& place) {
  const int count = must(H5Pget_nfilters(creation), "look at the filters of", place);
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    std::array<char, 80> name{};
    size_t values = 0;
    unsigned flags = 0, config = 0;
    const H5Z_filter_t filter = must(
        H5Pget_filter2(creation, i, &flags, &values, nullptr, name.size() - 1, name.data(), &config),
        "look at the filters of", place);
    if (H5Zfilter_avail(filter) <= 0) {
      refuse("is compressed by filter " + std::to_string(filter) + " ('" + escaped(name.data()) +
             "'), which is not built in; unpack it first (h5repack -f NONE)");
    }
  }
}

}  // namespace

template <typename Visit>
bool Walker::try_visit(const std::string& what, Visit visit) {
  try {
    visit();
    return true;
  } catch (const Error& error) {
    if (error.code() != Exit::unsupported) throw;
    if (dropped_ == nullptr) refuse(what + " " + error.text() + "; --drop-unsupported leaves it out");
    dropped_->push_back(what + " " + error.text());
    return false;
  }
}

void Walker::walk() {
  const Handle root = own(H5Gopen2(file_, "/", H5P_DEFAULT), H5Gclose, "open the root group of", {""});
  seen_.emplace(object_info(root.get(), {""}).id, "");
  walk_group(root.get(), "", 0);
  apply_order();
}

// Returns whether there is a tensor in the group.
bool Walker::walk_group(hid_t group, const std::string& path, unsigned depth) {
  const Place place{path};
  if (depth > kMaxGroupDepth) {
    throw Error(Exit::limit, "group '" + escaped(path) + "' is deeper than " + std::to_string(kMaxGroupDepth));
  }
  GroupRecord record;
  std::vector<Name> names;
  {
    const Handle creation = own(H5Gget_create_plist(group), H5Pclose, "look at group", place);
    unsigned links = 0, attributes = 0;
    must(H5Pget_link_creation_order(creation.get(), &links), "look at group", place);
    must(H5Pget_attr_creation_order(creation.get(), &attributes), "look at group", place);
    record.link_order = order_of(links);
    record.attribute_order = order_of(attributes);
    record.attributes = read_attributes(group, path, record.attribute_order, nullptr);
    const auto take = [](hid_t, const char* name, const H5L_info_t* info, void* out) {
      return guarded([&] { static_cast<std::vector<Name>*>(out)->push_back({name, info->type}); });
    };
    hsize_t at = 0;
    must(H5Literate(group, index_of(record.link_order), H5_ITER_INC, &at, take, &names), "list group", place);
  }
  const size_t tensors_before = tensors.size(), groups_before = tree.groups.size();
  bool order_is_implied = true;
  for (const Name& name : names) {
    const std::string child = path.empty() ? name.name : path + "/" + name.name;
    bool has_tensors = false;
    auto link = visit_link(group, name, child, depth, &has_tensors);
    if (!link) continue;
    if (link->kind != Link::Kind::child || !has_tensors) order_is_implied = false;
    if (link->kind == Link::Kind::child && record.link_order == Order::none) continue;
    record.links.push_back(std::move(*link));
  }
  if (order_is_implied) record.links.clear();
  const bool implied = path.empty() || tensors.size() > tensors_before || tree.groups.size() > groups_before;
  if (!implied || !record.is_default()) {
    budget_.take(path.size() + 8);
    tree.groups.emplace(path, std::move(record));
  }
  return tensors.size() > tensors_before;
}

std::optional<Link> Walker::visit_link(hid_t group, const Name& name, const std::string& path, unsigned depth,
                                       bool* has_tensors) {
  std::optional<Link> out;
  try_visit("link " + quoted(path), [&] {
    if (!is_utf8(name.name)) refuse("has a name that is not UTF-8, which cannot be kept");
    if (path.size() > kMaxNameSize) refuse("has a path longer than " + std::to_string(kMaxNameSize) + " bytes");
    if (!is_plain_path(name.name) || name.name.find('/') != std::string::npos) {
      refuse("has a name that is no name in HDF5, and cannot be followed");
    }
    if (name.type == H5L_TYPE_EXTERNAL) refuse("leads to another file, which is never opened");
    if (name.type == H5L_TYPE_SOFT) {
      out = soft_link(group, name.name, path);
    } else if (name.type != H5L_TYPE_HARD) {
      refuse("is of a kind defined by some program, which cannot be kept");
    }
  });
  if (out || name.type != H5L_TYPE_HARD || !is_utf8(name.name) || !is_plain_path(name.name) ||
      name.name.find('/') != std::string::npos || path.size() > kMaxNameSize) {
    return out;
  }
  return visit_object(group, name.name, path, depth, has_tensors);
}

Link Walker::soft_link(hid_t group, const std::string& name, const std::string& path) {
  H5L_info_t info;
  must(H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT), "look at link", {path});
  budget_.take(info.u.val_size + name.size() + 8);
  std::vector<char> target(info.u.val_size + 1, '\0');
  must(H5Lget_val(group, name.c_str(), target.data(), info.u.val_size, H5P_DEFAULT), "look at link", {path});
  Link link{.kind = Link::Kind::soft, .name = name, .target = target.data(), .values = {}, .record = {}};
  if (link.target.empty() || !is_utf8(link.target)) refuse("has a target that is not UTF-8 text");
  return link;
}

std::optional<Link> Walker::visit_object(hid_t group, const std::string& name, const std::string& path, unsigned depth,
                                         bool* has_tensors) {
  Handle object = own(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose, "open", {path});
  const ObjectInfo info = object_info(object.get(), {path});
  const auto [known, is_new] = seen_.emplace(info.id, path);
  if (!is_new) {
    if (!known->second) return std::nullopt;
    budget_.take(known->second->size() + name.size() + 8);
    return Link{.kind = Link::Kind::hard, .name = name, .target = *known->second, .values = {}, .record = {}};
  }
  std::optional<Link> out;
  if (info.type == H5O_TYPE_GROUP) {
    *has_tensors = walk_group(object.get(), path, depth + 1);
    return Link{.kind = Link::Kind::child, .name = name, .target = "", .values = {}, .record = {}};
  }
  const bool kept = try_visit((info.type == H5O_TYPE_DATASET ? "dataset " : "object ") + quoted(path), [&] {
    if (info.type == H5O_TYPE_NAMED_DATATYPE) refuse("is a committed type, which cannot be kept");
    if (info.type != H5O_TYPE_DATASET) refuse("is of an unknown kind");
    out = visit_dataset(std::move(object), name, path);
    *has_tensors = out->kind == Link::Kind::child;
  });
  if (!kept) known->second.reset();
  return out;
}

std::optional<Link> Walker::visit_dataset(Handle dataset, const std::string& name, const std::string& path) {
  const Place place{path};
  const Handle creation = own(H5Dget_create_plist(dataset.get()), H5Pclose, "look at", place);
  // Before anything else: the library opens other files as soon as it is asked for the shape of a virtual dataset.
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_VIRTUAL) refuse("is virtual, made of other datasets, which are never opened");
  if (H5Pget_external_count(creation.get()) > 0) refuse("is stored in other files, which are never opened");
  if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED) refuse("has an unknown layout");
  check_filters(creation.get(), place);
  const FileType type = read_type(own(H5Dget_type(dataset.get()), H5Tclose, "look at the type of", place), place);

  DatasetRecord record;
  read_creation(dataset.get(), creation.get(), type, record, place);
  std::string tensor_name;
  record.attributes = read_attributes(dataset.get(), path, record.attribute_order, &tensor_name);
  const Handle space = own(H5Dget_space(dataset.get()), H5Sclose, "look at the shape of", place);
  auto shape = shape_of(space.get(), place);
  Link link{.kind = Link::Kind::child, .name = name, .target = "", .values = {}, .record = {}};
  if (shape && type.spec.kind != TypeSpec::Kind::variable_text) {
    if (!tensor_name.empty()) record.path = path;
    add_tensor(dataset.get(), type, std::move(*shape), std::move(record), tensor_name.empty() ? path : tensor_name, path);
    return link;
  }
  link.kind = Link::Kind::dataset;
  link.record = std::move(record);
  link.values = read_values(std::move(dataset), type, std::move(shape), budget_, place);
  return link;
}

void Walker::read_creation(hid_t dataset, hid_t creation, const FileType& type, DatasetRecord& record,
                           const Place& place) {
  unsigned flags = 0;
  must(H5Pget_attr_creation_order(creation, &flags), "look at", place);
  record.attribute_order = order_of(flags);

  const Handle space = own(H5Dget_space(dataset), H5Sclose, "look at the shape of", place);
  if (H5Sget_simple_extent_type(space.get()) == H5S_SIMPLE) {
    std::array<hsize_t, H5S_MAX_RANK> dims{}, largest{};
    const int rank = must(H5Sget_simple_extent_dims(space.get(), dims.data(), largest.data()), "look at", place);
    if (!std::equal(dims.begin(), dims.begin() + rank, largest.begin())) {
      record.max_shape.emplace();
      for (int d = 0; d < rank; ++d) {
        const hsize_t dim = largest[static_cast<size_t>(d)];
        record.max_shape->push_back(dim == H5S_UNLIMITED ? kUnlimited : dim);
      }
    }
  }

  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  must(H5Pfill_value_defined(creation, &defined), "look at the fill value of", place);
  if (defined != H5D_FILL_VALUE_USER_DEFINED || type.spec.kind == TypeSpec::Kind::variable_text) return;
  FillValue fill{type.spec.dtype(), {}};
  fill.bytes.resize(fill.dtype.item_size());
  must(H5Pget_fill_value(creation, type.id.get(), fill.bytes.data()), "look at the fill value of", place);
  swap_words(fill.bytes, fill.bytes.size(), type.swapped);
  budget_.take(fill.bytes.size());
  record.fill = std::move(fill);
}

void Walker::add_tensor(hid_t dataset, const FileType& type, std::vector<uint64_t> shape, DatasetRecord record,
                        std::string name, const std::string& path) {
  Found found{{std::move(name), type.spec.dtype(), std::move(shape)}, path};
  check_tensor_info(found.info);
  const Handle creation = own(H5Dget_create_plist(dataset), H5Pclose, "look at", {path});
  check_storage(dataset, creation.get(), found.info, path);
  if (type.spec != TypeSpec::of(found.info.dtype)) record.type = type.spec;
  if (!record.is_default()) {
    budget_.take(found.info.name.size() + 16);
    if (!tree.tensors.emplace(found.info.name, std::move(record)).second) {
      throw Error(Exit::bad_input, "two datasets are named '" + escaped(found.info.name) + "'");
    }
  }
  tensors.push_back(std::move(found));
}

// Are the bytes there that the shape claims? The library does not look.
void Walker::check_storage(hid_t dataset, hid_t creation, const TensorInfo& info, const std::string& path) {
  const uint64_t size = info.byte_size();
  const auto claim = [&] { return "dataset '" + escaped(path) + "' has " + std::to_string(size) + " bytes by its shape"; };
  if (H5Pget_layout(creation) == H5D_CHUNKED) {
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    const int rank = must(H5Pget_chunk(creation, H5S_MAX_RANK, chunk.data()), "look at the chunks of", {path});
    uint64_t chunk_size = info.dtype.item_size();
    for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
      if (chunk[d] == 0 || static_cast<size_t>(rank) != info.shape.size()) {
        throw Error(Exit::bad_input, "dataset '" + escaped(path) + "' has chunks that do not fit its shape");
      }
      if (__builtin_mul_overflow(chunk_size, chunk[d], &chunk_size)) chunk_size = ~uint64_t{0};
    }
    if (chunk_size > kMaxChunkSize) {
      throw Error(Exit::limit, "dataset '" + escaped(path) + "' has HDF5 chunks of " + std::to_string(chunk_size) +
                                   " bytes; at most " + std::to_string(kMaxChunkSize) +
                                   " are read (h5repack -l can store it otherwise)");
    }
  } else if (const haddr_t offset = H5Dget_offset(dataset); offset != HADDR_UNDEF) {
    if (offset > file_size_ || size > file_size_ - offset || H5Dget_storage_size(dataset) < size) {
      throw Error(Exit::bad_input, claim() + ", but the file of " + std::to_string(file_size_) +
                                       " bytes ends before: it is damaged or was cut");
    }
    return;
  } else if (H5Pget_layout(creation) == H5D_COMPACT && H5Dget_storage_size(dataset) < size) {
    throw Error(Exit::bad_input, claim() + " and fewer in the file: it is damaged");
  }
  // Storage that was never written reads as the fill value, and compressed chunks may be small. Past this proportion
  // it is a trap or a mistake, and would take hours.
  constexpr uint64_t kUnsuspicious = uint64_t{1} << 30, kProportion = 1 << 16;
  if (size > kUnsuspicious && size / kProportion > file_size_) {
    throw Error(Exit::limit, claim() + ", in a file of only " + std::to_string(file_size_) + ": more than " +
                                 std::to_string(kProportion) + " times as many");
  }
}

// All but those of ours. `name` receives the name of a tensor, if there is one of its own.
std::vector<Attribute> Walker::read_attributes(hid_t object, const std::string& path, Order order, std::string* name) {
  const Place place{path};
  std::vector<std::string> names;
  hsize_t at = 0;
  must(H5Aiterate2(object, index_of(order), H5_ITER_INC, &at, take_attribute_name, &names), "list the attributes of",
       place);
  std::vector<Attribute> out;
  for (const std::string& attribute_name : names) {
    try_visit("attribute '" + escaped(attribute_name) + "' of " + quoted(path), [&] {
      if (!is_utf8(attribute_name) || attribute_name.empty()) refuse("has a name that is not UTF-8");
      const Handle id = own(H5Aopen(object, attribute_name.c_str(), H5P_DEFAULT), H5Aclose, "open an attribute of", place);
      budget_.take(attribute_name.size() + 16);
      Attribute attribute{attribute_name, read_attribute(id.get(), budget_, place)};
      const Values& values = attribute.values;
      if (name != nullptr && attribute_name == kNameAttribute && values.texts.size() == 1 && !values.texts[0].empty()) {
        *name = values.texts[0];
      } else if (path.empty() && attribute_name == kOrderAttribute) {
        take_order(attribute);
      } else {
        out.push_back(std::move(attribute));
      }
    });
  }
  return out;
}

}  // namespace gradcodec::hdf5
