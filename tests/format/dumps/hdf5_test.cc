// What tests by h5py (hdf5_h5py_test.py) do not reach: threads, refusals, choices of the caller.
// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/hdf5.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "format/dumps/tree.h"

using namespace gradcodec;
namespace fs = std::filesystem;

namespace {

// A directory that goes with the test.
struct Scratch {
  fs::path dir;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "gradcodec-hdf5-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    dir = name;
  }
  ~Scratch() { fs::remove_all(dir); }
  std::string operator/(const char* file) const { return (dir / file).string(); }
};

TensorInfo tensor(std::string name, const char* dtype, std::vector<uint64_t> shape) {
  return {std::move(name), DType::parse(dtype), std::move(shape)};
}

// Bytes that say where they are.
Bytes pattern(uint64_t size, size_t salt) {
  Bytes out(size);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 7 + i / 251 + salt);
  return out;
}

void write_all(const std::string& path, const std::vector<TensorInfo>& tensors, ByteView tree) {
  OutputFile output(path, true, {});
  const auto sink = make_hdf5_sink(output, tensors, tree);
  for (size_t i = 0; i < tensors.size(); ++i) {
    sink->begin(tensors[i]);
    const Bytes bytes = pattern(tensors[i].byte_size(), i);
    const uint64_t part = 7 * tensors[i].dtype.item_size();
    for (uint64_t at = 0; at < bytes.size(); at += part) {
      sink->write(ByteView(bytes).subspan(at, std::min(part, bytes.size() - at)));
    }
    sink->end();
  }
  sink->finish();
}

std::unique_ptr<Source> open(const std::string& path) { return open_hdf5(RandomFile::open(path), {}, nullptr); }

Bytes read_all(Source& source, size_t ordinal) {
  const TensorInfo& info = source.tensors()[ordinal];
  Bytes out(info.byte_size());
  source.open(ordinal)->read({0, info.size()}, out);
  return out;
}

std::vector<std::string> names(const Source& source) {
  std::vector<std::string> out;
  for (const TensorInfo& info : source.tensors()) out.push_back(info.name);
  return out;
}

Bytes contents(const std::string& path) {
  const auto file = RandomFile::open(path);
  Bytes out(file->size());
  file->read_at(0, out);
  return out;
}

Exit refusal(const std::function<void()>& action, std::string* text = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (text != nullptr) *text = error.what();
    return error.code();
  }
  return Exit::ok;
}

}  // namespace

TEST_CASE("tensors come back, without a tree in their order") {
  const Scratch scratch;
  std::vector<TensorInfo> tensors;
  for (const char* dtype :
       {"f2", "f4", "f8", "bf16", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool", "c8", "c16", "S5", "V3"}) {
    tensors.push_back(tensor(std::string("z") + std::to_string(100 - tensors.size()) + "/" + dtype, dtype, {3, 5}));
  }
  tensors.push_back(tensor("scalar", "f4", {}));
  tensors.push_back(tensor("none", "f8", {3, 0, 2}));
  write_all(scratch / "a.h5", tensors, {});
  write_all(scratch / "b.h5", tensors, {});
  CHECK(contents(scratch / "a.h5") == contents(scratch / "b.h5"));
  const auto source = open(scratch / "a.h5");
  CHECK(source->kind() == DumpKind::hdf5);
  REQUIRE(source->tensors().size() == tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    CHECK(source->tensors()[i].name == tensors[i].name);
    CHECK(source->tensors()[i].dtype == tensors[i].dtype);
    CHECK(source->tensors()[i].shape == tensors[i].shape);
    CHECK(read_all(*source, i) == pattern(tensors[i].byte_size(), i));
  }
}

TEST_CASE("the common file costs a tree of one byte") {
  const Scratch scratch;
  const Bytes empty_tree = write_tree({});
  write_all(scratch / "a.h5", {tensor("a/b/w", "f4", {2}), tensor("b", "f4", {3})}, empty_tree);
  const auto source = open(scratch / "a.h5");
  CHECK(source->tree() == empty_tree);
  CHECK(names(*source) == std::vector<std::string>{"a/b/w", "b"});
}

TEST_CASE("20,000 datasets") {
  const Scratch scratch;
  std::vector<TensorInfo> tensors;
  for (int i = 0; i < 20'000; ++i) {
    tensors.push_back(tensor("layer" + std::to_string(i % 50) + "/w" + std::to_string(i), "f4", {1}));
  }
  write_all(scratch / "a.h5", tensors, {});
  const auto source = open(scratch / "a.h5");
  CHECK(names(*source)[12'345] == tensors[12'345].name);  // not the order of traversal
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (read_all(*source, i) != pattern(4, i)) FAIL("tensor " << i);
  }
}

TEST_CASE("several threads read at once") {
  const Scratch scratch;
  const std::vector<TensorInfo> tensors = {tensor("w", "f4", {100, 37})};
  write_all(scratch / "a.h5", tensors, {});
  const auto source = open(scratch / "a.h5");
  const auto data = source->open(0);
  const Bytes expected = pattern(tensors[0].byte_size(), 0);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t first = t; first + 50 < 3700; first += 11) {
        Bytes out(4 * 50);
        data->read({first, 50}, out);
        if (!std::equal(out.begin(), out.end(), expected.begin() + static_cast<std::ptrdiff_t>(4 * first))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a tensor of another dtype, and only some of the tensors") {
  const Scratch scratch;
  Tree tree;
  tree.groups[""].link_order = Order::indexed;
  tree.groups[""].links = {{.kind = Link::Kind::child, .name = "w"},
                           {.kind = Link::Kind::hard, .name = "w2", .target = "w"},
                           {.kind = Link::Kind::child, .name = "gone"},
                           {.kind = Link::Kind::hard, .name = "gone2", .target = "gone"},
                           {.kind = Link::Kind::soft, .name = "soft", .target = "gone"},
                           {.kind = Link::Kind::child, .name = "a"}};
  tree.tensors["w"].fill = FillValue{DType::parse("f8"), Bytes(8)};
  tree.tensors["w"].max_shape = {kUnlimited};
  tree.tensors["gone"].max_shape = {kUnlimited};
  write_all(scratch / "a.h5", {tensor("w", "f4", {5}), tensor("a", "f4", {2})}, write_tree(tree));
  const auto source = open(scratch / "a.h5");
  CHECK(names(*source) == std::vector<std::string>{"w", "a"});
  const Tree back = parse_tree(source->tree());
  CHECK_FALSE(back.tensors.at("w").fill);
  CHECK(back.tensors.at("w").max_shape == std::vector<uint64_t>{kUnlimited});
  REQUIRE(back.groups.at("").links.size() == 4);
  CHECK(back.groups.at("").links[1].target == "w");
  CHECK(back.groups.at("").links[2].name == "soft");
}

TEST_CASE("hard links whose target comes later, or never, are no fault") {
  const Scratch scratch;
  Tree tree;
  tree.groups["g"].links = {{.kind = Link::Kind::hard, .name = "early", .target = "w"},
                            {.kind = Link::Kind::hard, .name = "never", .target = "x"}};
  write_all(scratch / "a.h5", {tensor("w", "f4", {1})}, write_tree(tree));
  const auto source = open(scratch / "a.h5");
  CHECK(names(*source) == std::vector<std::string>{"g/early"});
}

TEST_CASE("enums of 64 bits without sign") {
  const Scratch scratch;
  Tree tree;
  TypeSpec type;
  type.kind = TypeSpec::Kind::enumeration;
  type.plain = DType::parse("u8");
  type.values = {{"LARGE", static_cast<int64_t>(uint64_t{0xFFFFFFFFFFFFFFF0})}, {"ONE", 1}};
  tree.tensors["e"].type = type;
  write_all(scratch / "a.h5", {tensor("e", "u8", {2})}, write_tree(tree));
  CHECK(parse_tree(open(scratch / "a.h5")->tree()) == tree);
}

TEST_CASE("names that are long") {
  const Scratch scratch;
  std::vector<TensorInfo> tensors;
  tensors.push_back(tensor(std::string(65'535, 'a'), "f4", {1}));
  tensors.push_back(tensor("g/" + std::string(65'533, 'b'), "f4", {1}));
  tensors.push_back(tensor(std::string(65'533, 'c') + "//", "f4", {1}));
  write_all(scratch / "a.h5", tensors, {});
  const auto source = open(scratch / "a.h5");
  for (size_t i = 0; i < tensors.size(); ++i) CHECK(source->tensors()[i].name == tensors[i].name);
  CHECK(read_all(*source, 2) == pattern(4, 2));
}

TEST_CASE("what an HDF5 file of ours cannot hold is refused, and leaves nothing behind") {
  const Scratch scratch;
  for (const char* dtype : {"U3", "M8[ns]", "m8[s]", "f16", "c32", "S0", "V0"}) {
    std::string text;
    const Exit code = refusal([&] { write_all(scratch / "a.h5", {tensor("bad", dtype, {1})}, {}); }, &text);
    CHECK(code == Exit::unsupported);
    CHECK(text.find("'bad'") != std::string::npos);
    CHECK(text.find(".npz") != std::string::npos);
  }
  CHECK(fs::is_empty(scratch.dir));
  const Bytes junk(5, std::byte{0xFF});
  CHECK(refusal([&] { write_all(scratch / "a.h5", {tensor("w", "f4", {1})}, junk); }) == Exit::bad_input);
  Tree tree;
  tree.tensors["w"].max_shape = {4};
  CHECK(refusal([&] { write_all(scratch / "a.h5", {tensor("w", "f4", {5})}, write_tree(tree)); }) == Exit::bad_input);
  CHECK(fs::is_empty(scratch.dir));
}

TEST_CASE("a sink wants all it was made for") {
  const Scratch scratch;
  const std::vector<TensorInfo> tensors = {tensor("w", "f4", {2}), tensor("v", "f4", {2})};
  {
    OutputFile output(scratch / "a.h5", true, {});
    const auto sink = make_hdf5_sink(output, tensors, {});
    CHECK(refusal([&] { sink->begin(tensors[1]); }) == Exit::bug);
    sink->begin(tensors[0]);
    CHECK(refusal([&] { sink->write(Bytes(12)); }) == Exit::bug);
    CHECK(refusal([&] { sink->end(); }) == Exit::bug);
    sink->write(Bytes(8));
    sink->end();
    CHECK(refusal([&] { sink->finish(); }) == Exit::bug);
  }
  CHECK(fs::is_empty(scratch.dir));
}

TEST_CASE("a gradcodec_name that another dataset has is refused") {
  const Scratch scratch;
  Tree tree;
  TypeSpec text;
  text.kind = TypeSpec::Kind::variable_text;
  tree.tensors["w"].attributes = {
      {kNameAttribute, {.type = text, .shape = std::vector<uint64_t>{}, .texts = {"other"}}}};
  write_all(scratch / "a.h5", {tensor("w", "f4", {1}), tensor("other", "f4", {1})}, write_tree(tree));
  std::string what;
  CHECK(refusal([&] { open(scratch / "a.h5"); }, &what) == Exit::bad_input);
  CHECK(what.find("'other'") != std::string::npos);
}

TEST_CASE("an order that no longer fits is ignored") {
  const Scratch scratch;
  Tree tree;
  Values order{.type = TypeSpec::of({DType::u4, ""}), .shape = std::vector<uint64_t>{3}};
  for (const uint32_t n : {2u, 1u, 2u}) put(order.bytes, n);
  tree.groups[""].attributes = {{kOrderAttribute, order}};
  const std::vector<TensorInfo> tensors = {tensor("a", "f4", {1}), tensor("b", "f4", {1}), tensor("c", "f4", {1})};
  write_all(scratch / "a.h5", tensors, write_tree(tree));
  const auto source = open(scratch / "a.h5");
  CHECK(names(*source) == std::vector<std::string>{"a", "b", "c"});
  CHECK(source->tree() == write_tree({}));
}

TEST_CASE("the library says nothing on its own") {
  const Scratch scratch;
  std::ofstream(scratch / "a.h5") << "\x89HDF\r\n\x1a\n and no more";
  const int saved = dup(2);
  FILE* captured = std::tmpfile();
  dup2(fileno(captured), 2);
  std::thread([&] { CHECK(refusal([&] { open(scratch / "a.h5"); }) == Exit::bad_input); }).join();
  dup2(saved, 2);
  close(saved);
  std::fseek(captured, 0, SEEK_END);
  CHECK(std::ftell(captured) == 0);
  std::fclose(captured);
}
