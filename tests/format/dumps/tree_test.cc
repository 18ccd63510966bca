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
  point.members = {{"x", 8, TypeSpec::of({DType::f8, ""})}, {"colour", 0, colour}, {"o", 16, opaque},
                   {"t", 20, text_type(4)}, {"c", 24, TypeSpec::of({DType::c8, ""})}};
  record.type = point;
  record.path = "w";
  record.max_shape = {4, kUnlimited};
  record.fill = FillValue{{DType::other, "V32"}, Bytes(32, std::byte{9})};
  record.attribute_order = Order::indexed;
  record.attributes = {{"n", number(255)}};
  return tree;
}

Exit refusal(const Cbor& value) {
  try {
    parse_tree(write_cbor(value));
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
  const Cbor expected = {
      {"groups", {{"", {{"attrs", {{"lr", {"f4", Cbor::array(), Cbor::binary({0, 0, 0, 0x3F})}}}},
                        {"links", Cbor::array({Cbor::array({"last", "soft", "/w"})})}}}}},
      {"tensors", {{"w", {{"max", {nullptr, 10}}}}}},
  };
  Cbor attrs = Cbor::array({Cbor::array({"lr", Cbor::array({"f4", Cbor::array(), Cbor::binary({0, 0, 0, 0x3F})})})});
  Cbor exact = expected;
  exact["groups"][""]["attrs"] = attrs;
  CHECK(parse_cbor(write_tree(tree), "tree") == exact);
}

TEST_CASE("records that nobody writes are refused") {
  const auto group = [](const Cbor& fields) { return Cbor{{"groups", {{"", fields}}}}; };
  const auto tensor = [](const Cbor& fields) { return Cbor{{"tensors", {{"w", fields}}}}; };
  const auto link = [&](const Cbor& value) { return group({{"links", Cbor::array({value})}}); };
  const auto type = [&](const Cbor& value) { return tensor({{"type", value}}); };
  const auto arrays = [](std::initializer_list<Cbor> items) { return Cbor::array(items); };
  const Cbor bad[] = {
      Cbor::array(),
      {{"unknown", 1}},
      {{"groups", 1}},
      {{"groups", {{"/a", Cbor::object()}}}},
      {{"groups", {{"a//b", Cbor::object()}}}},
      {{"groups", {{"a/./b", Cbor::object()}}}},
      group({{"order", 3}}),
      group({{"order", 0}}),
      group({{"order", -1}}),
      group({{"links", Cbor::array()}}),
      link(""),
      link("a/b"),
      link("."),
      link(std::string("a\0b", 3)),
      link(5),
      link(arrays({"a", "external", "x"})),
      link(arrays({"a", "soft", ""})),
      link(arrays({"a", "hard", "/a"})),
      link(arrays({"a", "data", 1, Cbor::object()})),
      group({{"links", arrays({"a", "a"})}}),
      group({{"attrs", arrays({arrays({"", arrays({"u1", nullptr})})})}}),
      group({{"attrs", arrays({arrays({"a", arrays({"u1", nullptr})}), arrays({"a", arrays({"u1", nullptr})})})}}),
      group({{"attrs", arrays({arrays({"a", arrays({"u1", arrays({2}), Cbor::binary({1})})})})}}),
      group({{"attrs", arrays({arrays({"a", arrays({"u1", arrays({~uint64_t{0} - 1, 9}), Cbor::binary({})})})})}}),
      type("S4"),
      type("f3"),
      type({{"text", 0}, {"pad", "nullpad"}}),
      type({{"text", nullptr}, {"pad", "nullpad"}}),
      type({{"text", 4}, {"pad", "zero"}}),
      type({{"text", 4}, {"pad", "nullpad"}, {"utf8", false}}),
      type({{"text", (1 << 20) + 1}, {"pad", "nullpad"}}),
      type({{"opaque", 4}, {"tag", std::string(256, 'x')}}),
      type({{"enum", Cbor::array()}, {"base", "f4"}}),
      type({{"enum", arrays({arrays({"a", 128})})}, {"base", "i1"}}),
      type({{"enum", arrays({arrays({"a", -129})})}, {"base", "i1"}}),
      type({{"enum", arrays({arrays({"a", -1})})}, {"base", "u8"}}),
      type({{"enum", arrays({arrays({"a", 1}), arrays({"b", 1})})}, {"base", "i1"}}),
      type({{"compound", 4}, {"members", Cbor::array()}}),
      type({{"compound", 4}, {"members", arrays({arrays({"a", 1, "f4"})})}}),
      type({{"compound", 8}, {"members", arrays({arrays({"a", 0, "f4"}), arrays({"b", 3, "f4"})})}}),
      type({{"compound", 8}, {"members", arrays({arrays({"a", 0, "f4"}), arrays({"a", 4, "f4"})})}}),
      type({{"compound", 8},
            {"members", arrays({arrays({"a", 0, {{"compound", 4}, {"members", arrays({arrays({"a", 0, "f4"})})}}})})}}),
      tensor({{"path", "/w"}}),
      tensor({{"max", arrays({-1})}}),
      tensor({{"fill", arrays({"f4", Cbor::binary({1})})}}),
      tensor({{"fill", arrays({"f5", Cbor::binary({1})})}}),
  };
  for (const Cbor& value : bad) {
    INFO(value.dump());
    const Exit code = refusal(value);
    CHECK((code == Exit::bad_input || (code == Exit::unsupported && value.dump().find("f5") != std::string::npos)));
  }
  CHECK(refusal(type({{"enum", arrays({arrays({"a", 127}), arrays({"b", -128})})}, {"base", "i1"}})) == Exit::ok);
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
