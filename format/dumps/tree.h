// The tree record: what an HDF5 dump holds beside the names, element types, shapes and elements of its tensors.
// Its CBOR form is described in spec/tree.md.
//
// Kept: groups that no tensor's path implies; attributes; soft and hard links; whether creation order is tracked, and
// the order of links; null dataspaces; datasets of variable-length strings, with their values; exact types (enums,
// strings, opaque, compounds); the largest shape (unlimited dimensions) and the fill value set by the user.
// Not kept: chunk shapes, filters, byte order, times, character sets of link and attribute names, the fill time, and
// whether a string of no bytes was stored as a null pointer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codec/bytes.h"
#include "codec/tensor.h"

namespace gradcodec {

// Largest record, in bytes. Variable-length strings are kept in it, so it has to be large; it is held in memory.
inline constexpr size_t kMaxTreeSize = size_t{64} << 20;

// Most groups around an object. Deeper paths are refused when read, and never written.
inline constexpr unsigned kMaxGroupDepth = 500;

struct EnumMember {
  std::string name;
  int64_t value = 0;  // for u8: the bits
  bool operator==(const EnumMember&) const = default;
};

struct CompoundMember;

// An HDF5 type, little-endian.
struct TypeSpec {
  enum class Kind { plain, enumeration, text, variable_text, opaque, compound };
  enum class Padding { null_terminated, null_padded, space_padded };

  Kind kind = Kind::plain;
  DType plain = {};   // plain: any but `other` (bool: h5py's enum; c8, c16: h5py's compound); enumeration: its integer
  uint64_t size = 0;  // text, opaque, compound: bytes an element
  Padding padding = Padding::null_padded;  // text, variable_text
  bool utf8 = false;                       // text, variable_text: the character set; else ASCII
  std::string tag = {};                    // opaque
  std::vector<EnumMember> values = {};     // enumeration, in the file's order
  std::vector<CompoundMember> members;     // compound, in the file's order; neither variable_text nor compound

  // What a tensor of this type is called. variable_text has none: Error(bug).
  DType dtype() const;
  // The type that a tensor of this dtype has where nothing else is said. Throws Error(unsupported) for what HDF5 files
  // of ours cannot hold: U, M8, m8, f16, c32, S0, V0.
  static TypeSpec of(const DType& dtype);
  bool operator==(const TypeSpec&) const;
};

struct CompoundMember {
  std::string name;
  uint64_t offset = 0;  // bytes
  TypeSpec type;
  bool operator==(const CompoundMember&) const;
};

// A small array kept whole: of an attribute, or of a dataset that is no tensor.
struct Values {
  TypeSpec type;
  std::optional<std::vector<uint64_t>> shape = {};  // nothing: the null dataspace, which has no elements
  Bytes bytes = {};                                 // elements, C order, little-endian; not for variable_text
  std::vector<std::string> texts = {};              // elements of variable_text

  uint64_t size() const;  // elements
  bool operator==(const Values&) const = default;
};

struct Attribute {
  std::string name;
  Values values;
  bool operator==(const Attribute&) const = default;
};

// Is creation order tracked, and is there an index of it?
enum class Order : uint8_t { none = 0, tracked = 1, indexed = 2 };

struct FillValue {
  DType dtype;  // of the dataset; where a tensor is written as another dtype, the fill value is left out
  Bytes bytes;  // one element, little-endian
  bool operator==(const FillValue&) const = default;
};

inline constexpr uint64_t kUnlimited = ~uint64_t{0};

struct DatasetRecord {
  std::optional<TypeSpec> type;                    // of a tensor, where it is not TypeSpec::of its dtype
  std::optional<std::string> path;                 // of a tensor, where it is not its name
  std::optional<std::vector<uint64_t>> max_shape;  // where it is not the shape; kUnlimited
  std::optional<FillValue> fill;
  Order attribute_order = Order::none;
  std::vector<Attribute> attributes;

  bool is_default() const { return *this == DatasetRecord{}; }
  bool operator==(const DatasetRecord&) const = default;
};

struct Link {
  enum class Kind {
    child,    // a tensor or a group, under the name it is known by
    soft,     // target is a path, which may lead nowhere
    hard,     // target is the path by which the object is known: its first in the order of traversal
    dataset,  // a dataset that is no tensor: `values` and `record`
  };
  Kind kind = Kind::child;
  std::string name;         // one component of a path
  std::string target = {};  // soft, hard. Paths of hard links have no slash at either end; "" is the root
  Values values = {};       // dataset
  DatasetRecord record = {};
  bool operator==(const Link&) const = default;
};

struct GroupRecord {
  Order link_order = Order::none, attribute_order = Order::none;
  std::vector<Attribute> attributes;
  // If link order is tracked: nothing, or all links in their order. Else those that are not children.
  std::vector<Link> links;

  bool is_default() const { return *this == GroupRecord{}; }
  bool operator==(const GroupRecord&) const = default;
};

struct Tree {
  std::map<std::string, GroupRecord> groups;     // by path, without slashes at the ends; "" is the root
  std::map<std::string, DatasetRecord> tensors;  // by tensor name
  bool operator==(const Tree&) const = default;
};

// Throws Error(limit) if the record would pass kMaxTreeSize.
Bytes write_tree(const Tree& tree);

// Throws Error(bad_input) unless the bytes are a tree record that write_tree could have made. Empty bytes are no
// record.
Tree parse_tree(ByteView bytes);

// Can `path` be written in an HDF5 file as it is: no slash at the ends, no empty and no "." component, no NUL, at most
// kMaxGroupDepth groups?
bool is_plain_path(std::string_view path);

}  // namespace gradcodec
