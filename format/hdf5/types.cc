// SPDX-License-Identifier: Apache-2.0
#include "format/hdf5/types.h"

#include <algorithm>
#include <optional>

#include "codec/utf8.h"
#include "format/dumps/swap_bytes.h"

namespace gradcodec::hdf5 {
namespace {

constexpr uint64_t kMaxItemSize = uint64_t{1} << 20;  // as DType::parse

// The fields of a float, in bits counted from the lowest.
struct FloatLayout {
  DType::Code code;
  size_t size, sign, exponent, exponent_size, mantissa_size, bias;
};
constexpr FloatLayout kFloats[] = {
    {DType::f2, 2, 15, 10, 5, 10, 15},
    {DType::f4, 4, 31, 23, 8, 23, 127},
    {DType::f8, 8, 63, 52, 11, 52, 1023},
    {DType::bf16, 2, 15, 7, 8, 7, 127},
};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Exit::unsupported, "has elements that are " + what + ", which are not supported");
}

std::string take_text(char* text) {
  std::string out = text == nullptr ? "" : text;
  H5free_memory(text);
  if (!is_utf8(out)) refuse("of a type with a name or tag that is not UTF-8");
  return out;
}

void add_swap(hid_t type, uint64_t offset, uint64_t size, std::vector<Word>& swapped) {
  const H5T_order_t order = H5Tget_order(type);
  if (order == H5T_ORDER_BE && size > 1) swapped.push_back({offset, size});
  if (order != H5T_ORDER_BE && order != H5T_ORDER_LE) refuse("in a byte order other than little- and big-endian");
}

DType read_float(hid_t type) {
  size_t sign, exponent, exponent_size, mantissa, mantissa_size;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) >= 0) {
    const size_t size = H5Tget_size(type);
    for (const FloatLayout& f : kFloats) {
      if (size == f.size && H5Tget_precision(type) == 8 * f.size && H5Tget_offset(type) == 0 && sign == f.sign &&
          exponent == f.exponent && exponent_size == f.exponent_size && mantissa == 0 &&
          mantissa_size == f.mantissa_size && H5Tget_ebias(type) == f.bias && H5Tget_norm(type) == H5T_NORM_IMPLIED) {
        return {f.code, ""};
      }
    }
  }
  refuse("floats other than float16, bfloat16, float32 and float64");
}

DType read_integer(hid_t type) {
  const size_t size = H5Tget_size(type);
  const bool whole = H5Tget_precision(type) == 8 * size && H5Tget_offset(type) == 0;
  const H5T_sign_t sign = H5Tget_sign(type);
  if (!whole || (size != 1 && size != 2 && size != 4 && size != 8) || sign == H5T_SGN_ERROR) {
    refuse("integers of an unusual size");
  }
  return DType::parse((sign == H5T_SGN_NONE ? "u" : "i") + std::to_string(size));
}

TypeSpec read_enum(hid_t type, const Place& place) {
  const Handle base = own(H5Tget_super(type), H5Tclose, "look at the type of", place);
  if (H5Tget_class(base.get()) != H5T_INTEGER) refuse("enums over something other than integers");
  TypeSpec spec;
  spec.kind = TypeSpec::Kind::enumeration;
  spec.plain = read_integer(base.get());
  const uint64_t size = spec.plain.item_size();
  std::vector<Word> swapped;
  add_swap(base.get(), 0, size, swapped);
  const int count = must(H5Tget_nmembers(type), "look at the type of", place);
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    std::array<std::byte, 8> raw{};
    must(H5Tget_member_value(type, i, raw.data()), "look at the type of", place);
    swap_words(std::span(raw).first(size), size, swapped);
    auto value = std::bit_cast<int64_t>(raw);
    const bool negative = spec.plain.code <= DType::i8 && static_cast<uint8_t>(raw[size - 1]) >= 0x80;
    if (negative && size < 8) value |= static_cast<int64_t>(~uint64_t{0} << (8 * size));
    spec.values.push_back({take_text(H5Tget_member_name(type, i)), value});
  }
  const std::vector<EnumMember> h5py_bool = {{"FALSE", 0}, {"TRUE", 1}};
  if (spec.plain.code == DType::i1 && spec.values == h5py_bool) return TypeSpec::of({DType::boolean, ""});
  return spec;
}

TypeSpec read_text(hid_t type) {
  TypeSpec spec;
  spec.kind = TypeSpec::Kind::text;
  if (H5Tis_variable_str(type) > 0) {
    spec.kind = TypeSpec::Kind::variable_text;
  } else {
    spec.size = H5Tget_size(type);
  }
  const H5T_str_t padding = H5Tget_strpad(type);
  if (padding != H5T_STR_NULLTERM && padding != H5T_STR_NULLPAD && padding != H5T_STR_SPACEPAD) {
    refuse("strings padded in an unknown way");
  }
  spec.padding = padding == H5T_STR_NULLTERM  ? TypeSpec::Padding::null_terminated
                 : padding == H5T_STR_NULLPAD ? TypeSpec::Padding::null_padded
                                              : TypeSpec::Padding::space_padded;
  const H5T_cset_t charset = H5Tget_cset(type);
  if (charset != H5T_CSET_ASCII && charset != H5T_CSET_UTF8) refuse("strings in an unknown character set");
  spec.utf8 = charset == H5T_CSET_UTF8;
  return spec;
}

TypeSpec read_spec(hid_t type, const Place& place, bool in_compound, uint64_t offset, std::vector<Word>& swapped);

// h5py's complex numbers: two floats of one kind, named r and i.
std::optional<DType> complex_dtype(const TypeSpec& spec) {
  if (spec.members.size() != 2 || spec.members[0].name != "r" || spec.members[1].name != "i") return std::nullopt;
  const TypeSpec& part = spec.members[0].type;
  const bool floats =
      part.kind == TypeSpec::Kind::plain && (part.plain.code == DType::f4 || part.plain.code == DType::f8);
  if (!floats || spec.members[1].type != part) return std::nullopt;
  const uint64_t size = part.plain.item_size();
  if (spec.size != 2 * size || spec.members[0].offset != 0 || spec.members[1].offset != size) return std::nullopt;
  return DType{size == 4 ? DType::c8 : DType::c16, ""};
}

TypeSpec read_compound(hid_t type, const Place& place, bool in_compound, uint64_t offset, std::vector<Word>& swapped) {
  TypeSpec spec;
  spec.kind = TypeSpec::Kind::compound;
  spec.size = H5Tget_size(type);
  const int count = must(H5Tget_nmembers(type), "look at the type of", place);
  for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
    const Handle member = own(H5Tget_member_type(type, i), H5Tclose, "look at the type of", place);
    const uint64_t at = H5Tget_member_offset(type, i);
    // The member type of a committed or big-endian compound is looked at like any other.
    spec.members.push_back(
        {take_text(H5Tget_member_name(type, i)), at, read_spec(member.get(), place, true, offset + at, swapped)});
  }
  if (const auto dtype = complex_dtype(spec)) return TypeSpec::of(*dtype);
  if (in_compound) refuse("compounds with compounds in them");
  return spec;
}

TypeSpec read_spec(hid_t type, const Place& place, bool in_compound, uint64_t offset, std::vector<Word>& swapped) {
  TypeSpec spec;
  const uint64_t size = H5Tget_size(type);
  if (size == 0 || size > kMaxItemSize) refuse("larger than " + std::to_string(kMaxItemSize) + " bytes");
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      spec = TypeSpec::of(read_float(type));
      add_swap(type, offset, size, swapped);
      return spec;
    case H5T_INTEGER:
      spec = TypeSpec::of(read_integer(type));
      add_swap(type, offset, size, swapped);
      return spec;
    case H5T_ENUM:
      spec = read_enum(type, place);
      add_swap(type, offset, size, swapped);
      return spec;
    case H5T_STRING:
      spec = read_text(type);
      if (in_compound && spec.kind == TypeSpec::Kind::variable_text) {
        refuse("compounds with variable-length strings in them");
      }
      return spec;
    case H5T_OPAQUE:
      spec.kind = TypeSpec::Kind::opaque;
      spec.size = size;
      spec.tag = take_text(H5Tget_tag(type));
      return spec;
    case H5T_COMPOUND:
      return read_compound(type, place, in_compound, offset, swapped);
    case H5T_REFERENCE:
      refuse("references");
    case H5T_VLEN:
      refuse("variable-length sequences");
    case H5T_ARRAY:
      refuse("arrays");
    case H5T_BITFIELD:
      refuse("bit fields");
    case H5T_TIME:
      refuse("times");
    default:
      refuse("of an unknown class");
  }
}

Handle copy_of(hid_t type, const Place& place) { return own(H5Tcopy(type), H5Tclose, "make a type for", place); }

Handle make_plain(const DType& dtype, const Place& place);

Handle make_bfloat16(const Place& place) {
  Handle type = copy_of(H5T_IEEE_F32LE, place);
  const char* action = "make a type for";
  // The fields are moved before the size shrinks, as none may stick out at any time.
  must(H5Tset_fields(type.get(), 15, 7, 8, 0, 7), action, place);
  must(H5Tset_precision(type.get(), 16), action, place);
  must(H5Tset_size(type.get(), 2), action, place);
  must(H5Tset_ebias(type.get(), 127), action, place);
  return type;
}

Handle make_half(const Place& place) {
  Handle type = copy_of(H5T_IEEE_F32LE, place);
  const char* action = "make a type for";
  must(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), action, place);
  must(H5Tset_precision(type.get(), 16), action, place);
  must(H5Tset_size(type.get(), 2), action, place);
  must(H5Tset_ebias(type.get(), 15), action, place);
  return type;
}

Handle make_bool(const Place& place) {
  Handle type = own(H5Tenum_create(H5T_STD_I8LE), H5Tclose, "make a type for", place);
  const int8_t no = 0, yes = 1;
  must(H5Tenum_insert(type.get(), "FALSE", &no), "make a type for", place);
  must(H5Tenum_insert(type.get(), "TRUE", &yes), "make a type for", place);
  return type;
}

Handle make_complex(hid_t part, size_t size, const Place& place) {
  Handle type = own(H5Tcreate(H5T_COMPOUND, 2 * size), H5Tclose, "make a type for", place);
  must(H5Tinsert(type.get(), "r", 0, part), "make a type for", place);
  must(H5Tinsert(type.get(), "i", size, part), "make a type for", place);
  return type;
}

Handle make_plain(const DType& dtype, const Place& place) {
  switch (dtype.code) {
    case DType::f2:
      return make_half(place);
    case DType::bf16:
      return make_bfloat16(place);
    case DType::f4:
      return copy_of(H5T_IEEE_F32LE, place);
    case DType::f8:
      return copy_of(H5T_IEEE_F64LE, place);
    case DType::i1:
      return copy_of(H5T_STD_I8LE, place);
    case DType::i2:
      return copy_of(H5T_STD_I16LE, place);
    case DType::i4:
      return copy_of(H5T_STD_I32LE, place);
    case DType::i8:
      return copy_of(H5T_STD_I64LE, place);
    case DType::u1:
      return copy_of(H5T_STD_U8LE, place);
    case DType::u2:
      return copy_of(H5T_STD_U16LE, place);
    case DType::u4:
      return copy_of(H5T_STD_U32LE, place);
    case DType::u8:
      return copy_of(H5T_STD_U64LE, place);
    case DType::boolean:
      return make_bool(place);
    case DType::c8:
      return make_complex(H5T_IEEE_F32LE, 4, place);
    case DType::c16:
      return make_complex(H5T_IEEE_F64LE, 8, place);
    case DType::other:
      break;
  }
  throw Error(Exit::bug, "no HDF5 type for '" + escaped(dtype.name()) + "'");
}

}  // namespace

FileType read_type(Handle type, const Place& place) {
  FileType out;
  out.spec = read_spec(type.get(), place, false, 0, out.swapped);
  out.id = std::move(type);
  return out;
}

Handle make_type(const TypeSpec& spec, const Place& place) {
  const char* action = "make a type for";
  Handle type;
  switch (spec.kind) {
    case TypeSpec::Kind::plain:
      return make_plain(spec.plain, place);
    case TypeSpec::Kind::enumeration: {
      const Handle base = make_plain(spec.plain, place);
      type = own(H5Tenum_create(base.get()), H5Tclose, action, place);
      // Little-endian: the first bytes of the int64 are the value, whatever the integer's size.
      for (const EnumMember& m : spec.values) must(H5Tenum_insert(type.get(), m.name.c_str(), &m.value), action, place);
      return type;
    }
    case TypeSpec::Kind::text:
    case TypeSpec::Kind::variable_text:
      type = copy_of(H5T_C_S1, place);
      must(H5Tset_size(type.get(), spec.kind == TypeSpec::Kind::text ? spec.size : H5T_VARIABLE), action, place);
      must(H5Tset_strpad(type.get(), spec.padding == TypeSpec::Padding::null_terminated ? H5T_STR_NULLTERM
                                     : spec.padding == TypeSpec::Padding::null_padded   ? H5T_STR_NULLPAD
                                                                                        : H5T_STR_SPACEPAD),
           action, place);
      must(H5Tset_cset(type.get(), spec.utf8 ? H5T_CSET_UTF8 : H5T_CSET_ASCII), action, place);
      return type;
    case TypeSpec::Kind::opaque:
      type = own(H5Tcreate(H5T_OPAQUE, spec.size), H5Tclose, action, place);
      must(H5Tset_tag(type.get(), spec.tag.c_str()), action, place);
      return type;
    case TypeSpec::Kind::compound:
      type = own(H5Tcreate(H5T_COMPOUND, spec.size), H5Tclose, action, place);
      for (const CompoundMember& m : spec.members) {
        const Handle member = make_type(m.type, place);
        must(H5Tinsert(type.get(), m.name.c_str(), m.offset, member.get()), action, place);
      }
      return type;
  }
  throw Error(Exit::bug, "a type of no kind");
}

size_t uniform_word(uint64_t item_size, const std::vector<Word>& swapped) {
  uint64_t end = 0;
  for (const Word& word : swapped) {
    if (word.size != swapped[0].size || word.offset != end) return 0;
    end += word.size;
  }
  return end == item_size && end > 0 ? swapped[0].size : 0;
}

void swap_words(std::span<std::byte> elements, uint64_t item_size, const std::vector<Word>& swapped) {
  if (swapped.empty()) return;
  if (const size_t word = uniform_word(item_size, swapped)) return swap_bytes(elements, word);
  for (size_t at = 0; at + item_size <= elements.size(); at += item_size) {
    for (const Word& word : swapped) std::reverse(&elements[at + word.offset], &elements[at + word.offset] + word.size);
  }
}

}  // namespace gradcodec::hdf5
