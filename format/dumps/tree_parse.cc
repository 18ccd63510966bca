// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "codec/utf8.h"
#include "format/cbor.h"
#include "format/dumps/tree.h"

namespace gradcodec {
namespace {

constexpr uint64_t kMaxItemSize = uint64_t{1} << 20;  // as DType::parse

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::bad_input, "the tree record " + text); }

const std::string& text_of(const Cbor& value, const char* what) {
  if (!value.is_string()) fail(std::string("has a ") + what + " that is not text");
  const auto& text = value.get_ref<const std::string&>();
  // HDF5 takes names and texts that end at a NUL.
  if (text.find('\0') != std::string::npos) fail(std::string("has a ") + what + " with a NUL in it");
  return text;
}

uint64_t number_of(const Cbor& value, const char* what, uint64_t largest) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > largest) {
    fail(std::string("has a ") + what + " that is not a number up to " + std::to_string(largest));
  }
  return value.get<uint64_t>();
}

Bytes bytes_of(const Cbor& value, const char* what) {
  if (!value.is_binary()) fail(std::string("has a ") + what + " that is not a byte string");
  const auto view = std::as_bytes(std::span(value.get_binary()));
  return Bytes(view.begin(), view.end());
}

const Cbor& list_of(const Cbor& value, const char* what, size_t least = 0, size_t most = SIZE_MAX) {
  if (!value.is_array() || value.size() < least || value.size() > most) {
    fail(std::string("has a ") + what + " that is not an array of the right length");
  }
  return value;
}

const Cbor& map_of(const Cbor& value, const char* what) {
  if (!value.is_object()) fail(std::string("has a ") + what + " that is not a map");
  return value;
}

// The entries of a map, each to be taken once; what is left is not known.
class Fields {
 public:
  Fields(const Cbor& map, const char* what) : map_(map_of(map, what)), what_(what) {}
  const Cbor* take(const char* key) {
    const auto it = map_.find(key);
    if (it == map_.end()) return nullptr;
    ++taken_;
    return &*it;
  }
  const Cbor& need(const char* key) {
    const Cbor* value = take(key);
    if (value == nullptr) fail(std::string("has a ") + what_ + " without '" + key + "'");
    return *value;
  }
  void expect_end() const {
    if (taken_ != map_.size()) fail(std::string("has a ") + what_ + " with a key that is not known");
  }

 private:
  const Cbor& map_;
  const char* what_;
  size_t taken_ = 0;
};

DType any_dtype(const Cbor& value) {
  const std::string& text = text_of(value, "type");
  try {
    return DType::parse(text);
  } catch (const Error&) {
    fail("has a type '" + escaped(text) + "', which is not known");
  }
}

DType plain_dtype(const Cbor& value) {
  DType dtype = any_dtype(value);
  if (dtype.code == DType::other) fail("has a plain type '" + escaped(dtype.name()) + "'");
  return dtype;
}

bool is_integer(const DType& dtype) { return dtype.code >= DType::i1 && dtype.code <= DType::u8; }

int64_t enum_value(const Cbor& value, const DType& base) {
  if (!value.is_number_integer()) fail("has an enum value that is not an integer");
  const bool is_signed = base.code <= DType::i8;
  const unsigned bits = static_cast<unsigned>(8 * base.item_size() - (is_signed ? 1 : 0));
  const uint64_t largest = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() > largest) fail("has an enum value that its integer cannot hold");
    return static_cast<int64_t>(value.get<uint64_t>());
  }
  const auto n = value.get<int64_t>();
  if (!is_signed || n < -static_cast<int64_t>(largest) - 1) fail("has an enum value that its integer cannot hold");
  return n;
}

TypeSpec parse_type(const Cbor& value, bool in_compound = false);

TypeSpec parse_enum(const Cbor& list, const Cbor& base) {
  TypeSpec type;
  type.kind = TypeSpec::Kind::enumeration;
  type.plain = plain_dtype(base);
  if (!is_integer(type.plain)) fail("has an enum over '" + type.plain.name() + "'");
  std::set<std::string> names;
  std::set<int64_t> values;
  for (const Cbor& entry : list_of(list, "list of enum members")) {
    list_of(entry, "enum member", 2, 2);
    type.values.push_back({text_of(entry[0], "name"), enum_value(entry[1], type.plain)});
    if (!names.insert(type.values.back().name).second || !values.insert(type.values.back().value).second) {
      fail("has an enum with two members of one name or value");
    }
  }
  return type;
}

TypeSpec parse_compound(const Cbor& size, const Cbor& list) {
  TypeSpec type;
  type.kind = TypeSpec::Kind::compound;
  type.size = number_of(size, "compound size", kMaxItemSize);
  std::set<std::string> names;
  std::vector<std::pair<uint64_t, uint64_t>> extents;
  for (const Cbor& entry : list_of(list, "list of compound members", 1)) {
    list_of(entry, "compound member", 3, 3);
    CompoundMember member{text_of(entry[0], "name"), number_of(entry[1], "offset", kMaxItemSize),
                          parse_type(entry[2], true)};
    extents.emplace_back(member.offset, member.offset + member.type.dtype().item_size());
    if (extents.back().second > type.size) fail("has a compound member that passes the compound's end");
    if (!names.insert(member.name).second) fail("has a compound with two members of one name");
    type.members.push_back(std::move(member));
  }
  std::sort(extents.begin(), extents.end());
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].first < extents[i - 1].second) fail("has a compound whose members overlap");
  }
  return type;
}

TypeSpec parse_type(const Cbor& value, bool in_compound) {
  using Kind = TypeSpec::Kind;
  TypeSpec type;
  if (value.is_string()) {
    type.plain = plain_dtype(value);
    return type;
  }
  Fields fields(value, "type");
  if (const Cbor* list = fields.take("enum")) {
    type = parse_enum(*list, fields.need("base"));
  } else if (const Cbor* text = fields.take("text")) {
    type.kind = text->is_null() ? Kind::variable_text : Kind::text;
    if (!text->is_null()) type.size = number_of(*text, "text size", kMaxItemSize);
    const std::string& pad = text_of(fields.need("pad"), "padding");
    type.padding = pad == "nullterm"   ? TypeSpec::Padding::null_terminated
                   : pad == "nullpad"  ? TypeSpec::Padding::null_padded
                   : pad == "spacepad" ? TypeSpec::Padding::space_padded
                                       : (fail("has a padding '" + escaped(pad) + "'"), TypeSpec::Padding::null_padded);
    const Cbor* utf8 = fields.take("utf8");
    if (utf8 != nullptr && *utf8 != true) fail("has an 'utf8' that is not true");
    type.utf8 = utf8 != nullptr;
  } else if (const Cbor* size = fields.take("opaque")) {
    type.kind = Kind::opaque;
    type.size = number_of(*size, "opaque size", kMaxItemSize);
    type.tag = text_of(fields.need("tag"), "tag");
    if (type.tag.size() > 255) fail("has an opaque tag of more than 255 bytes");
  } else {
    if (in_compound) fail("has a compound in a compound");
    type = parse_compound(fields.need("compound"), fields.need("members"));
  }
  if (in_compound && type.kind == Kind::variable_text) fail("has variable-length text in a compound");
  if (type.size == 0 && type.kind != Kind::enumeration && type.kind != Kind::variable_text)
    fail("has a type of no bytes");
  fields.expect_end();
  return type;
}

std::vector<uint64_t> parse_shape(const Cbor& value, bool unlimited) {
  std::vector<uint64_t> shape;
  for (const Cbor& dim : list_of(value, "shape", 0, kMaxRank)) {
    shape.push_back(unlimited && dim.is_null() ? kUnlimited : number_of(dim, "dimension", kUnlimited - 1));
  }
  return shape;
}

std::string parse_variable_text(const Cbor& value) {
  if (value.is_string()) return text_of(value, "variable-length text");
  const Bytes bytes = bytes_of(value, "variable-length text");
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.find('\0') != std::string::npos || is_utf8(text)) fail("has variable-length text in the wrong form");
  return text;
}

Values parse_values(const Cbor& value) {
  list_of(value, "value", 2, 3);
  Values out{.type = parse_type(value[0])};
  const bool null = value[1].is_null();
  if (value.size() != (null ? 2 : 3)) fail("has a value of the wrong length");
  if (null) return out;
  out.shape = parse_shape(value[1], false);
  const bool variable = out.type.kind == TypeSpec::Kind::variable_text;
  check_tensor_info({"value", variable ? DType{DType::u1, ""} : out.type.dtype(), *out.shape});
  if (variable) {
    const Cbor& list = list_of(value[2], "list of texts");
    for (const Cbor& text : list) out.texts.push_back(parse_variable_text(text));
    if (out.texts.size() != out.size()) fail("has texts whose number is not what their shape says");
  } else {
    out.bytes = bytes_of(value[2], "value");
    if (out.bytes.size() != out.size() * out.type.dtype().item_size()) {
      fail("has a value whose size is not what its shape says");
    }
  }
  return out;
}

Order parse_order(Fields& fields, const char* key) {
  const Cbor* value = fields.take(key);
  if (value == nullptr) return Order::none;
  const uint64_t n = number_of(*value, "creation order", 2);
  if (n == 0) fail("has a creation order of 0");
  return static_cast<Order>(n);
}

std::vector<Attribute> parse_attributes(Fields& fields) {
  std::vector<Attribute> out;
  const Cbor* list = fields.take("attrs");
  if (list == nullptr) return out;
  std::set<std::string> names;
  for (const Cbor& entry : list_of(*list, "list of attributes", 1)) {
    list_of(entry, "attribute", 2, 2);
    out.push_back({text_of(entry[0], "name"), parse_values(entry[1])});
    if (out.back().name.empty()) fail("has an attribute without a name");
    if (!names.insert(out.back().name).second) fail("has two attributes '" + escaped(out.back().name) + "'");
  }
  return out;
}

DatasetRecord parse_dataset(const Cbor& value, bool tensor) {
  DatasetRecord out;
  Fields fields(value, "dataset");
  if (tensor) {
    if (const Cbor* type = fields.take("type")) {
      out.type = parse_type(*type);
      if (out.type->kind == TypeSpec::Kind::variable_text) fail("has a tensor of variable-length text");
    }
    if (const Cbor* path = fields.take("path")) {
      out.path = text_of(*path, "path");
      if (!is_plain_path(*out.path)) fail("has a path '" + escaped(*out.path) + "', which HDF5 cannot hold");
    }
  }
  if (const Cbor* max = fields.take("max")) out.max_shape = parse_shape(*max, true);
  if (const Cbor* fill = fields.take("fill")) {
    list_of(*fill, "fill value", 2, 2);
    out.fill = {any_dtype((*fill)[0]), bytes_of((*fill)[1], "fill value")};
    if (out.fill->bytes.size() != out.fill->dtype.item_size()) fail("has a fill value of the wrong size");
  }
  out.attribute_order = parse_order(fields, "attr_order");
  out.attributes = parse_attributes(fields);
  fields.expect_end();
  return out;
}

Link parse_link(const Cbor& value) {
  Link link;
  if (value.is_string()) {
    link.name = text_of(value, "link");
  } else {
    list_of(value, "link", 3, 4);
    link.name = text_of(value[0], "link");
    const std::string& kind = text_of(value[1], "kind of link");
    if (kind == "data") {
      link.kind = Link::Kind::dataset;
      list_of(value, "dataset", 4, 4);
      link.values = parse_values(value[2]);
      link.record = parse_dataset(value[3], false);
    } else {
      if (kind != "soft" && kind != "hard") fail("has a link of kind '" + escaped(kind) + "'");
      list_of(value, "link", 3, 3);
      link.kind = kind == "soft" ? Link::Kind::soft : Link::Kind::hard;
      link.target = text_of(value[2], "target");
      const bool good =
          link.kind == Link::Kind::soft ? !link.target.empty() : link.target.empty() || is_plain_path(link.target);
      if (!good) fail("has a link to '" + escaped(link.target) + "'");
    }
  }
  if (!is_plain_path(link.name) || link.name.find('/') != std::string::npos) {
    fail("has a link named '" + escaped(link.name) + "', which HDF5 cannot hold");
  }
  return link;
}

GroupRecord parse_group(const Cbor& value) {
  GroupRecord out;
  Fields fields(value, "group");
  out.link_order = parse_order(fields, "order");
  out.attribute_order = parse_order(fields, "attr_order");
  out.attributes = parse_attributes(fields);
  if (const Cbor* links = fields.take("links")) {
    std::set<std::string> names;
    for (const Cbor& link : list_of(*links, "list of links", 1)) {
      out.links.push_back(parse_link(link));
      const std::string& name = out.links.back().name;
      if (!names.insert(name).second) fail("has two links '" + escaped(name) + "' in one group");
    }
  }
  fields.expect_end();
  return out;
}

}  // namespace

Tree parse_tree(ByteView bytes) {
  Tree tree;
  const Cbor value = parse_cbor(bytes, "the tree record", {.size = kMaxTreeSize});
  Fields fields(value, "root");
  if (const Cbor* groups = fields.take("groups")) {
    for (const auto& [path, group] : map_of(*groups, "map of groups").items()) {
      if (!path.empty() && !is_plain_path(path)) fail("has a group '" + escaped(path) + "', which HDF5 cannot hold");
      tree.groups.emplace(path, parse_group(group));
    }
  }
  if (const Cbor* tensors = fields.take("tensors")) {
    for (const auto& [name, record] : map_of(*tensors, "map of tensors").items()) {
      tree.tensors.emplace(name, parse_dataset(record, true));
    }
  }
  fields.expect_end();
  return tree;
}

}  // namespace gradcodec
