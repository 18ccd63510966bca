// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/tree.h"

#include <catch2/catch.hpp>
#include <random>

#include "format/cbor.h"

using namespace gradcodec;

namespace {

Values number(uint8_t n) {
  return {.type = TypeSpec::of({DType::u1, ""}), .shape = std::vector<uint64_t>{}, .bytes = {std::byte{n}}};
}

TypeSpec text_type(uint64_t size) {
  TypeSpec type;
  type.kind = size == 0 ? TypeSpec::Kind::variable_text : TypeSpec::Kind::text;
  type.size = size;
  type.padding = TypeSpec::Padding::space_padded;
  type.utf8 = true;
  return type;
}

// Something of everything.
Tree full_tree() {
  Tree tree;
  GroupRecord& root = tree.groups[""];
  root.link_order = Order::indexed;
  root.attribute_order = Order::tracked;
  root.attributes = {{"n", number(7)},
                     {"null", {.type = TypeSpec::of({DType::f4, ""}), .shape = std::nullopt}},
                     {"words", {.type = text_type(0), .shape = std::vector<uint64_t>{2, 1}, .texts = {"a", "\xFF"}}}};
  root.links = {
      {.kind = Link::Kind::child, .name = "w"},
      {.kind = Link::Kind::soft, .name = "s", .target = "/no/where"},
      {.kind = Link::Kind::hard, .name = "h", .target = "w"},
      {.kind = Link::Kind::hard, .name = "cycle", .target = ""},
      {.kind = Link::Kind::dataset, .name = "d", .values = number(1)},
  };
  root.links.back().record.max_shape = std::vector<uint64_t>{};
  tree.groups["empty/group"] = {};

  DatasetRecord& record = tree.tensors["w"];
  TypeSpec colour;
  colour.kind = TypeSpec::Kind::enumeration;
  colour.plain = {DType::i2, ""};
  colour.values = {{"RED", -5}, {"BLUE", 32767}};
  TypeSpec opaque;
  opaque.kind = TypeSpec::Kind::opaque;
  opaque.size = 3;
  opaque.tag = "jpeg";
  TypeSpec point;
  point.kind = TypeSpec::Kind::compound;
  point.size = 32;
  point.members = {{"x", 8, TypeSpec::of({DType::f8, ""})},
                   {"colour", 0, colour},
                   {"o", 16, opaque},
                   {"t", 20, text_type(4)},
                   {"c", 24, TypeSpec::of({DType::c8, ""})}};
  record.type = point;
  record.path = "w";
  record.max_shape = {4, kUnlimited};
  record.fill = FillValue{{DType::other, "V32"}, Bytes(32, std::byte{9})};
  record.attribute_order = Order::indexed;
  record.attributes = {{"n", number(255)}};
  return tree;
}

// JSON, where a text "hex:..." stands for a byte string.
Cbor with_bytes(const Cbor& value) {
  if (value.is_string() && value.get<std::string>().starts_with("hex:")) {
    const auto digits = value.get<std::string>().substr(4);
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < digits.size(); i += 2) {
      bytes.push_back(static_cast<uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    }
    return Cbor::binary(bytes);
  }
  if (!value.is_structured()) return value;
  Cbor out = value;
  for (auto& [key, element] : out.items()) element = with_bytes(element);
  return out;
}

Cbor from_json(const std::string& text) { return with_bytes(Cbor::parse(text)); }

Exit refusal(const std::string& json) {
  try {
    parse_tree(write_cbor(from_json(json)));
  } catch (const Error& error) {
    return error.code();
  }
  return Exit::ok;
}

}  // namespace

TEST_CASE("a tree comes back from its record") {
  const Tree tree = full_tree();
  const Bytes bytes = write_tree(tree);
  CHECK(parse_tree(bytes) == tree);
  CHECK(write_tree(parse_tree(bytes)) == bytes);
  CHECK(write_tree({}).size() == 1);
  CHECK(parse_tree(write_tree({})) == Tree{});
}

TEST_CASE("the example of the specification") {
  Tree tree;
  GroupRecord& root = tree.groups[""];
  root.attributes = {{"lr", {.type = TypeSpec::of({DType::f4, ""}), .shape = std::vector<uint64_t>{}, .bytes = {}}}};
  put(root.attributes[0].values.bytes, 0.5f);
  root.links = {{.kind = Link::Kind::soft, .name = "last", .target = "/w"}};
  tree.tensors["w"].max_shape = {kUnlimited, 10};
  CHECK(parse_cbor(write_tree(tree), "tree") == from_json(R"({
    "groups": {"": {"attrs": [["lr", ["f4", [], "hex:0000003f"]]], "links": [["last", "soft", "/w"]]}},
    "tensors": {"w": {"max": [null, 10]}}
  })"));
}

TEST_CASE("records that nobody writes are refused") {
  const auto group = [](const std::string& fields) { return R"({"groups": {"": )" + fields + "}}"; };
  const auto tensor = [](const std::string& fields) { return R"({"tensors": {"w": )" + fields + "}}"; };
  const auto link = [&](const std::string& value) { return group(R"({"links": [)" + value + "]}"); };
  const auto attrs = [&](const std::string& value) { return group(R"({"attrs": [)" + value + "]}"); };
  const auto type = [&](const std::string& value) { return tensor(R"({"type": )" + value + "}"); };
  const std::string bad[] = {
      "[]",
      R"({"unknown": 1})",
      R"({"groups": 1})",
      R"({"groups": {"/a": {}}})",
      R"({"groups": {"a//b": {}}})",
      R"({"groups": {"a/./b": {}}})",
      group(R"({"order": 3})"),
      group(R"({"order": 0})"),
      group(R"({"order": -1})"),
      group(R"({"links": []})"),
      link(R"("")"),
      link(R"("a/b")"),
      link(R"(".")"),
      link(R"("a\u0000b")"),
      link("5"),
      link(R"(["a", "external", "x"])"),
      link(R"(["a", "soft", ""])"),
      link(R"(["a", "soft"])"),
      link(R"(["a", "hard", "/a"])"),
      link(R"(["a", "data", 1, {}])"),
      link(R"("a", "a")"),
      attrs(R"(["", ["u1", null]])"),
      attrs(R"(["a", ["u1", null]], ["a", ["u1", null]])"),
      attrs(R"(["a", ["u1", null, "hex:"]])"),
      attrs(R"(["a", ["u1", [2], "hex:01"]])"),
      attrs(R"(["a", ["u1", [18446744073709551614, 9], "hex:"]])"),
      attrs(R"(["a", ["u1", [null], "hex:"]])"),
      attrs(R"(["a", [{"text": null, "pad": "nullpad"}, [2], ["x"]]])"),
      attrs(R"(["a", [{"text": null, "pad": "nullpad"}, [1], ["hex:61"]]])"),
      type(R"("S4")"),
      type(R"("f3")"),
      type(R"({"text": 0, "pad": "nullpad"})"),
      type(R"({"text": null, "pad": "nullpad"})"),
      type(R"({"text": 4, "pad": "zero"})"),
      type(R"({"text": 4})"),
      type(R"({"text": 4, "pad": "nullpad", "utf8": false})"),
      type(R"({"text": 1048577, "pad": "nullpad"})"),
      type(R"({"opaque": 4, "tag": ")" + std::string(256, 'x') + "\"}"),
      type(R"({"enum": [], "base": "f4"})"),
      type(R"({"enum": [["a", 128]], "base": "i1"})"),
      type(R"({"enum": [["a", -129]], "base": "i1"})"),
      type(R"({"enum": [["a", -1]], "base": "u8"})"),
      type(R"({"enum": [["a", 1], ["b", 1]], "base": "i1"})"),
      type(R"({"enum": [["a", 1], ["a", 2]], "base": "i1"})"),
      type(R"({"compound": 4, "members": []})"),
      type(R"({"compound": 4, "members": [["a", 1, "f4"]]})"),
      type(R"({"compound": 8, "members": [["a", 0, "f4"], ["b", 3, "f4"]]})"),
      type(R"({"compound": 8, "members": [["a", 0, "f4"], ["a", 4, "f4"]]})"),
      type(R"({"compound": 8, "members": [["a", 0, {"compound": 4, "members": [["a", 0, "f4"]]}]]})"),
      type(R"({"compound": 16, "members": [["a", 0, {"text": null, "pad": "nullpad"}]]})"),
      tensor(R"({"path": "/w"})"),
      tensor(R"({"max": [-1]})"),
      tensor(R"({"fill": ["f4", "hex:01"]})"),
      tensor(R"({"fill": ["f5", "hex:01"]})"),
  };
  for (const std::string& json : bad) {
    INFO(json);
    CHECK(refusal(json) == Exit::bad_input);
  }
  CHECK(refusal(type(R"({"enum": [["a", 127], ["b", -128]], "base": "i1"})")) == Exit::ok);
  CHECK(refusal(link(R"(["a", "data", [{"text": null, "pad": "nullpad"}, [1], ["hex:ff"]], {}])")) == Exit::ok);
}

TEST_CASE("a damaged record is refused or means what it says") {
  const Bytes whole = write_tree(full_tree());
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    Bytes changed = whole;
    for (int k = 0; k < 1 + i % 3; ++k) changed[random() % changed.size()] = static_cast<std::byte>(random());
    try {
      const Tree tree = parse_tree(changed);
      CHECK(parse_tree(write_tree(tree)) == tree);
    } catch (const Error& error) {
      CHECK(error.code() != Exit::bug);
    }
  }
}

TEST_CASE("paths that HDF5 can hold") {
  for (const char* path : {"a", "a/b", "..", "a.b/.c", "\xC3\xA9"}) CHECK(is_plain_path(path));
  for (const char* path : {"", "/", "/a", "a/", "a//b", ".", "a/.", "./a", "a/./b"}) CHECK_FALSE(is_plain_path(path));
  CHECK_FALSE(is_plain_path(std::string_view("a\0b", 3)));
  std::string deep = "t";
  for (unsigned i = 0; i < kMaxGroupDepth; ++i) deep = "g/" + deep;
  CHECK(is_plain_path(deep));
  CHECK_FALSE(is_plain_path("g/" + deep));
}
