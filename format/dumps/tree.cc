// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/tree.h"

#include "codec/utf8.h"
#include "format/cbor.h"

namespace gradcodec {
namespace {

constexpr const char* kPaddings[] = {"nullterm", "nullpad", "spacepad"};

Cbor binary(const Bytes& bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  return Cbor::binary({data, data + bytes.size()});
}

Cbor type_to_cbor(const TypeSpec& type) {
  using Kind = TypeSpec::Kind;
  Cbor out = Cbor::object();
  switch (type.kind) {
    case Kind::plain:
      return type.plain.name();
    case Kind::enumeration:
      out["enum"] = Cbor::array();
      for (const EnumMember& member : type.values) {
        const bool bits = type.plain.code == DType::u8;
        out["enum"].push_back({member.name, bits ? Cbor(static_cast<uint64_t>(member.value)) : Cbor(member.value)});
      }
      out["base"] = type.plain.name();
      return out;
    case Kind::text:
    case Kind::variable_text:
      out["text"] = type.kind == Kind::text ? Cbor(type.size) : Cbor(nullptr);
      out["pad"] = kPaddings[static_cast<size_t>(type.padding)];
      if (type.utf8) out["utf8"] = true;
      return out;
    case Kind::opaque:
      out["opaque"] = type.size;
      out["tag"] = type.tag;
      return out;
    case Kind::compound:
      out["compound"] = type.size;
      out["members"] = Cbor::array();
      for (const CompoundMember& member : type.members) {
        out["members"].push_back({member.name, member.offset, type_to_cbor(member.type)});
      }
      return out;
  }
  throw Error(Exit::bug, "a type of no kind");
}

Cbor shape_to_cbor(const std::vector<uint64_t>& shape) {
  Cbor out = Cbor::array();
  for (const uint64_t dim : shape) out.push_back(dim == kUnlimited ? Cbor(nullptr) : Cbor(dim));
  return out;
}

Cbor values_to_cbor(const Values& values) {
  Cbor out = Cbor::array({type_to_cbor(values.type)});
  out.push_back(values.shape ? shape_to_cbor(*values.shape) : Cbor(nullptr));
  if (!values.shape) return out;
  if (values.type.kind != TypeSpec::Kind::variable_text) {
    out.push_back(binary(values.bytes));
    return out;
  }
  Cbor texts = Cbor::array();
  for (const std::string& text : values.texts) {
    texts.push_back(is_utf8(text) ? Cbor(text) : binary(Bytes(as_bytes(text).begin(), as_bytes(text).end())));
  }
  out.push_back(std::move(texts));
  return out;
}

void put_order(Cbor& out, const char* key, Order order) {
  if (order != Order::none) out[key] = static_cast<uint8_t>(order);
}

void put_attributes(Cbor& out, const std::vector<Attribute>& attributes) {
  if (attributes.empty()) return;
  Cbor list = Cbor::array();
  for (const Attribute& attribute : attributes) list.push_back({attribute.name, values_to_cbor(attribute.values)});
  out["attrs"] = std::move(list);
}

Cbor dataset_to_cbor(const DatasetRecord& record) {
  Cbor out = Cbor::object();
  if (record.type) out["type"] = type_to_cbor(*record.type);
  if (record.path) out["path"] = *record.path;
  if (record.max_shape) out["max"] = shape_to_cbor(*record.max_shape);
  if (record.fill) out["fill"] = {record.fill->dtype.name(), binary(record.fill->bytes)};
  put_order(out, "attr_order", record.attribute_order);
  put_attributes(out, record.attributes);
  return out;
}

Cbor link_to_cbor(const Link& link) {
  switch (link.kind) {
    case Link::Kind::child:
      return link.name;
    case Link::Kind::soft:
      return {link.name, "soft", link.target};
    case Link::Kind::hard:
      return {link.name, "hard", link.target};
    case Link::Kind::dataset:
      return {link.name, "data", values_to_cbor(link.values), dataset_to_cbor(link.record)};
  }
  throw Error(Exit::bug, "a link of no kind");
}

Cbor group_to_cbor(const GroupRecord& group) {
  Cbor out = Cbor::object();
  put_order(out, "order", group.link_order);
  put_order(out, "attr_order", group.attribute_order);
  put_attributes(out, group.attributes);
  if (!group.links.empty()) {
    Cbor links = Cbor::array();
    for (const Link& link : group.links) links.push_back(link_to_cbor(link));
    out["links"] = std::move(links);
  }
  return out;
}

}  // namespace

// Written out: the two types contain each other, which clang 14 cannot compare by default.
bool TypeSpec::operator==(const TypeSpec& other) const {
  return kind == other.kind && plain == other.plain && size == other.size && padding == other.padding &&
         utf8 == other.utf8 && tag == other.tag && values == other.values && members == other.members;
}

bool CompoundMember::operator==(const CompoundMember& other) const {
  return name == other.name && offset == other.offset && type == other.type;
}

DType TypeSpec::dtype() const {
  switch (kind) {
    case Kind::plain:
    case Kind::enumeration:
      return plain;
    case Kind::text:
      return {DType::other, "S" + std::to_string(size)};
    case Kind::opaque:
    case Kind::compound:
      return {DType::other, "V" + std::to_string(size)};
    case Kind::variable_text:
      break;
  }
  throw Error(Exit::bug, "strings of variable length are no tensor");
}

TypeSpec TypeSpec::of(const DType& dtype) {
  TypeSpec out;
  if (dtype.code != DType::other) {
    out.plain = dtype;
    return out;
  }
  const char letter = dtype.descriptor.empty() ? '?' : dtype.descriptor[0];
  if (letter != 'S' && letter != 'V') {
    throw Error(Exit::unsupported, "elements of type '" + escaped(dtype.name()) +
                                       "' cannot be stored in an HDF5 file; write to .npz instead");
  }
  if (dtype.item_size() == 0) {
    throw Error(Exit::unsupported, "elements of no bytes ('" + escaped(dtype.name()) +
                                       "') cannot be stored in an HDF5 file; write to .npz instead");
  }
  out.kind = letter == 'S' ? Kind::text : Kind::opaque;
  out.size = dtype.item_size();
  return out;
}

uint64_t Values::size() const {
  if (!shape) return 0;
  uint64_t n = 1;
  for (const uint64_t dim : *shape) n *= dim;
  return n;
}

bool is_plain_path(std::string_view path) {
  if (path.find('\0') != std::string_view::npos) return false;
  for (unsigned depth = 0; depth <= kMaxGroupDepth; ++depth) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == ".") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

Bytes write_tree(const Tree& tree) {
  Cbor out = Cbor::object();
  for (const auto& [path, group] : tree.groups) out["groups"][path] = group_to_cbor(group);
  for (const auto& [name, record] : tree.tensors) out["tensors"][name] = dataset_to_cbor(record);
  Bytes bytes = write_cbor(out);
  if (bytes.size() > kMaxTreeSize) {
    throw Error(Exit::limit, "its attributes, links and variable-length strings take " + std::to_string(bytes.size()) +
                                 " bytes; at most " + std::to_string(kMaxTreeSize) + " can be kept");
  }
  return bytes;
}

}  // namespace gradcodec
