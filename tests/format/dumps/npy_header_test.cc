// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/npy_header.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/format/dumps/made_files.h"

using namespace gradcodec;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

NpyHeader parse(const std::string& bytes, bool as_bf16 = false) {
  size_t at = 0;
  const auto read_next = [&](std::span<std::byte> out) {
    REQUIRE(out.size() <= bytes.size() - at);
    std::memcpy(out.data(), bytes.data() + at, out.size());
    at += out.size();
  };
  NpyHeader header = read_npy_header(bytes.size(), read_next, as_bf16);
  CHECK(header.size == at);
  return header;
}

NpyHeader parse_text(const std::string& text, char major = 1) { return parse(npy_of(text, "", major)); }

NpyHeader parse_descr(const std::string& descr, bool as_bf16 = false) {
  return parse(npy_of(header_text(descr, "(3,)")), as_bf16);
}

std::string text_failure(const std::string& text, char major = 1) {
  return failure_of([&] { parse_text(text, major); });
}

std::string descr_failure(const std::string& descr) {
  return failure_of([&] { parse_descr(descr); });
}

}  // namespace

TEST_CASE("npy header: what Python may write is read") {
  using Shape = std::vector<uint64_t>;
  const auto shape_of = [](const std::string& shape) { return parse_text(header_text("<f4", shape)).shape; };
  CHECK(shape_of("()") == Shape{});
  CHECK(shape_of("(5,)") == Shape{5});
  CHECK(shape_of("( 5 , 0 )") == Shape{5, 0});
  CHECK(shape_of("(5,6,)") == Shape{5, 6});
  CHECK(shape_of("(10L, 4L)") == Shape{10, 4});
  CHECK(shape_of("(9223372036854775807,)") == Shape{(uint64_t{1} << 63) - 1});
  CHECK(parse_text("{u'descr': u'<f4', u\"shape\": (3,), 'fortran_order': False}").shape == Shape{3});
  CHECK_THAT(text_failure("{'descr': uu'<f4', 'shape': (3,), 'fortran_order': False}"), StartsWith("3: "));
  const NpyHeader other_quotes = parse_text("{\"shape\":(2,3),\"fortran_order\":True,\"descr\":\">f8\"}");
  CHECK(other_quotes.shape == Shape{2, 3});
  CHECK(other_quotes.fortran_order);
  CHECK(other_quotes.big_endian);
  CHECK(parse_text(" \n{ 'descr'\t:\n'<f4' ,'shape':(2, ),'fortran_order':False}  \n").shape == Shape{2});
}

TEST_CASE("npy header: each version has its own length field, and the length is the truth") {
  for (const char major : {'\1', '\2', '\3'}) {
    const std::string text = header_text("<f4", "(7,)");
    CHECK(parse_text(text, major).shape == std::vector<uint64_t>{7});
    CHECK(parse_text(text, major).size == text.size() + (major == 1 ? 10 : 12));
    CHECK(parse_text(text + std::string(60000, ' '), major).size == text.size() + 60000 + (major == 1 ? 10 : 12));
  }
  CHECK(parse_text(header_text("<f4", "()") + std::string(900000, ' ') + "\n", 2).shape.empty());
  CHECK_THAT(text_failure(std::string(kMaxNpyHeaderText + 1, ' '), 2), StartsWith("5: "));
  CHECK_THAT(text_failure(header_text("<f4", "(10L,)"), 3), StartsWith("3: "));  // no Python 2 wrote version 3
  CHECK_THAT(failure_of([] { parse(npy_of(header_text("<f4", "()"), "", 4)); }), StartsWith("6: ") && Contains("4.0"));
  std::string minor = npy_of(header_text("<f4", "()"));
  minor[7] = 1;
  CHECK_THAT(failure_of([&] { parse(minor); }), StartsWith("6: ") && Contains("1.1"));
}

TEST_CASE("npy header: a claimed length is compared with what is there") {
  const std::string huge = "\x93NUMPY" + std::string("\2\0\xF0\xFF\xFF\xFF", 6);
  CHECK_THAT(failure_of([&] { parse(huge); }), StartsWith("3: ") && Contains("4294967292 bytes expected, 12 present"));
  const std::string whole = npy_of(header_text("<f4", "(7,)"));
  for (size_t size = 0; size < whole.size(); ++size) {
    CHECK_THAT(failure_of([&] { parse(whole.substr(0, size)); }), StartsWith("3: ") && Contains("present"));
  }
}

TEST_CASE("npy header: what np.load refuses is refused") {
  const std::string good = "'descr': '<f4', 'fortran_order': False, 'shape': (3,)";
  REQUIRE(text_failure("{" + good + "}").empty());
  for (const std::string& text : {
           std::string(),
           std::string("{"),
           std::string("{}"),
           "[" + good + "]",
           good,
           "{" + good,
           "{" + good + "} x",
           "{" + good + ", 'extra': 1}",
           "{" + good + ", 'shape': (3,)}",
           "{" + good + ",,}",
           "{" + good + "}" + '\0',
           std::string("{'descr': '<f4', 'fortran_order': 1, 'shape': (3,)}"),
           std::string("{'descr': '<f4', 'fortran_order': Falsey, 'shape': (3,)}"),
           std::string("{'descr': '<f4', 'fortran_order': 'False', 'shape': (3,)}"),
           std::string("{'descr': '<f4', 'fortran_order': false, 'shape': (3,)}"),
           std::string("{'descr': '<f4', 'shape': (3,)}"),
           std::string("{'descr': '<f4', 'fortran_order': False}"),
           std::string("{descr: '<f4', 'fortran_order': False, 'shape': (3,)}"),
           std::string("{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}"),
           std::string("{'descr': 4, 'fortran_order': False, 'shape': (3,)}"),
           std::string("{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (3,)}"),
           std::string("{'descr' '<f4', 'fortran_order': False, 'shape': (3,)}"),
       }) {
    INFO(text);
    CHECK_THAT(text_failure(text), StartsWith("3: "));
  }
  for (const char* shape : {"3", "(3)", "[3]", "(-1,)", "(3.0,)", "(,)", "(3,,)", "(3 4)", "(True,)", "(03,)", "(0x3,)",
                            "('3',)", "(3", "(9223372036854775808,)", "(99999999999999999999,)", "(1e3,)", "None"}) {
    INFO(shape);
    CHECK_THAT(text_failure(header_text("<f4", shape)), StartsWith("3: "));
  }
  std::string many = "(";
  for (int i = 0; i < 33; ++i) many += "1,";
  CHECK_THAT(text_failure(header_text("<f4", many + ")")), StartsWith("5: ") && Contains("more than 32"));
  CHECK_THAT(failure_of([] { parse("\x93NUMPX" + std::string(100, '\0')); }), StartsWith("3: "));
}

TEST_CASE("npy header: element types") {
  const struct {
    const char* descr;
    const char* name;
    bool big_endian;
  } cases[] = {{"<f2", "f2", false},
               {">f2", "f2", true},
               {"=f4", "f4", false},
               {"|f4", "f4", false},
               {"f8", "f8", false},
               {">f8", "f8", true},
               {"|i1", "i1", false},
               {">i1", "i1", false},
               {"<i2", "i2", false},
               {">i4", "i4", true},
               {"<i8", "i8", false},
               {"|u1", "u1", false},
               {">u2", "u2", true},
               {"<u4", "u4", false},
               {"<u8", "u8", false},
               {"|b1", "bool", false},
               {">c8", "c8", true},
               {"<c16", "c16", false},
               {"|S5", "S5", false},
               {"<U3", "U3", false},
               {">U3", "U3", true},
               {"|V7", "V7", false},
               {"|V2", "V2", false},
               {"<M8[ns]", "M8[ns]", false},
               {">m8[25us]", "m8[25us]", true},
               {"<M8", "M8", false},
               {"<f16", "f16", false},
               {">c32", "c32", true}};
  for (const auto& c : cases) {
    INFO(c.descr);
    const NpyHeader header = parse_descr(c.descr);
    CHECK(header.dtype.name() == c.name);
    CHECK(header.big_endian == c.big_endian);
  }
  for (const char* descr : {"", "<", ">", "|", "=", "<ixy", "<f-4", "<f4 ", "<f4x", "<f4,<f4", "<<f4", "<4", "4"}) {
    INFO(descr);
    const std::string failure = descr_failure(descr);
    CHECK(!failure.empty());
    CHECK_THAT(failure, StartsWith("3: ") || StartsWith("6: "));
  }
  for (const char* descr :
       {"<f", "<f3", "<f12", "<i16", "<i0", "|S99999999999999999999", "<M8[", "<M8[]", "?", "|b2", "|x4"}) {
    INFO(descr);
    CHECK_THAT(descr_failure(descr), StartsWith("6: ") && Contains("'" + std::string(descr) + "'"));
  }
}

TEST_CASE("npy header: what is refused by name") {
  for (const char* descr : {"|O", "O", "|O8", "<O"}) {
    CHECK_THAT(descr_failure(descr), StartsWith("6: ") && Contains("pickles and are never loaded"));
  }
  CHECK_THAT(text_failure("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (3,)}"),
             StartsWith("6: ") && Contains("structured dtype not supported"));
  CHECK_THAT(text_failure("{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (3,)}"), StartsWith("6: "));
  for (const char* descr : {"<g2", "bfloat16", "<bfloat16", "bf16"}) {
    CHECK_THAT(descr_failure(descr), StartsWith("6: ") && Contains(descr) && Contains("--as-bf16"));
  }
}

TEST_CASE("npy header: two bytes are bfloat16 only when that is said") {
  CHECK(parse_descr("|V2").dtype.name() == "V2");
  CHECK(parse_descr("<u2").dtype.name() == "u2");
  CHECK(parse_descr("<V2", true).dtype.code == DType::bf16);
  CHECK(parse_descr("|V2", true).dtype.code == DType::bf16);
  CHECK_FALSE(parse_descr("|V2", true).big_endian);
  CHECK(parse_descr(">u2", true).dtype.code == DType::bf16);
  CHECK(parse_descr(">u2", true).big_endian);
  CHECK(parse_descr("<i2").dtype.code == DType::i2);
  CHECK(parse_descr("<i2", true).dtype.code == DType::bf16);
  CHECK(parse_descr("<f2", true).dtype.code == DType::f2);
  CHECK(parse_descr("|V4", true).dtype.name() == "V4");
}

TEST_CASE("npy header: what is written reads back, aligned") {
  for (const char* dtype : {"f2",  "f4", "f8",  "bf16", "i1", "i8", "u1",     "u2", "bool", "c8",
                            "c16", "S0", "S12", "U7",   "V8", "V2", "M8[ns]", "m8", "f16",  "c32"}) {
    for (const size_t rank : {0, 1, 2, 5, 32}) {
      const TensorInfo info{"t", DType::parse(dtype), std::vector<uint64_t>(rank, rank == 1 ? 1u << 30 : 1)};
      const Bytes bytes = make_npy_header(info);
      CHECK(bytes.size() % 64 == 0);
      CHECK(bytes.back() == std::byte{'\n'});
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const NpyHeader header = parse(text, info.dtype.code == DType::bf16);
      CHECK(header.dtype == info.dtype);
      CHECK(header.shape == info.shape);
      CHECK_FALSE(header.big_endian);
      CHECK_FALSE(header.fortran_order);
    }
  }
  const TensorInfo longest{"t", DType::parse("m8[1234567generic]"), std::vector<uint64_t>(32, (uint64_t{1} << 63) - 1)};
  CHECK(make_npy_header(longest).size() < 1024);
}
