// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/walk.h"

#include <cstring>

#include "codec/utf8.h"
#include "format/dumps/hdf5.h"

namespace gradcodec::hdf5 {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(Exit::unsupported, text); }

std::string quoted(const std::string& path) { return path.empty() ? "the root group" : "'" + escaped(path) + "'"; }

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

}  // namespace

Order order_of(unsigned creation_order_flags) {
  return (creation_order_flags & H5P_CRT_ORDER_TRACKED) == 0 ? Order::none
         : (creation_order_flags & H5P_CRT_ORDER_INDEXED)    ? Order::indexed
                                                             : Order::tracked;
}

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
  const bool kept = try_visit("link " + quoted(path), [&] {
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
  if (!kept || out) return out;
  return visit_object(group, name.name, path, depth, has_tensors);
}

Link Walker::soft_link(hid_t group, const std::string& name, const std::string& path) {
  H5L_info_t info;
  must(H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT), "look at link", {path});
  budget_.take(info.u.val_size + name.size() + 8);
  std::vector<char> target(info.u.val_size + 1, '\0');
  must(H5Lget_val(group, name.c_str(), target.data(), info.u.val_size, H5P_DEFAULT), "look at link", {path});
  Link link{.kind = Link::Kind::soft, .name = name, .target = target.data()};
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
    return Link{.kind = Link::Kind::hard, .name = name, .target = *known->second};
  }
  std::optional<Link> out;
  if (info.type == H5O_TYPE_GROUP) {
    *has_tensors = walk_group(object.get(), path, depth + 1);
    return Link{.kind = Link::Kind::child, .name = name};
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
      const Handle id =
          own(H5Aopen(object, attribute_name.c_str(), H5P_DEFAULT), H5Aclose, "open an attribute of", place);
      budget_.take(attribute_name.size() + 16);
      Attribute attribute{attribute_name, read_attribute(id.get(), budget_, place)};
      const Values& values = attribute.values;
      if (name != nullptr && attribute_name == kNameAttribute && values.texts.size() == 1 && !values.texts[0].empty() &&
          values.texts[0] != path) {  // ours says what the path cannot

        *name = values.texts[0];
      } else if (path.empty() && attribute_name == kOrderAttribute && values.type == TypeSpec::of({DType::u4, ""})) {
        take_order(attribute);
      } else {
        out.push_back(std::move(attribute));
      }
    });
  }
  return out;
}

void Walker::take_order(const Attribute& attribute) {
  const Values& values = attribute.values;
  if (values.type != TypeSpec::of({DType::u4, ""})) return;
  order_.resize(values.size());
  for (size_t i = 0; i < order_.size(); ++i) {
    uint32_t place;
    std::memcpy(&place, &values.bytes[4 * i], 4);
    order_[i] = place;
  }
}

// Somebody may have changed the file since the order was written: what does not fit is ignored.
void Walker::apply_order() {
  if (order_.size() != tensors.size()) return;
  std::vector<Found*> at(tensors.size(), nullptr);
  for (size_t i = 0; i < order_.size(); ++i) {
    if (order_[i] >= at.size() || at[order_[i]] != nullptr) return;
    at[order_[i]] = &tensors[i];
  }
  std::vector<Found> ordered;
  for (Found* found : at) ordered.push_back(std::move(*found));
  tensors = std::move(ordered);
}

}  // namespace gradcodec::hdf5
