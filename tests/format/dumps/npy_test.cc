// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/npy.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "format/dumps/transpose.h"
#include "tests/format/dumps/made_files.h"

using namespace gradcodec;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string elements_of(Source& source, size_t ordinal = 0) {
  const TensorInfo& info = source.tensors().at(ordinal);
  std::string out(info.byte_size(), '\0');
  source.open(ordinal)->read({0, info.size()}, std::as_writable_bytes(std::span(out)));
  return out;
}

std::unique_ptr<Source> opened(const std::string& bytes, SourceOptions options = {}) {
  return open_source(file_of(bytes), options, nullptr);
}

std::string failure_to_open(const std::string& bytes) {
  return failure_of([&] { opened(bytes); });
}

// Element i of the array in C order, of `item_size` bytes, is i: where does it lie in Fortran order?
std::string counting_in_fortran_order(const std::vector<uint64_t>& shape, size_t item_size) {
  uint64_t size = 1;
  for (const uint64_t dim : shape) size *= dim;
  std::string out(size * item_size, '\0');
  for (uint64_t i = 0; i < size; ++i) {
    // The index along d is i / (product of later dims) % dim; its Fortran stride is the product of earlier dims.
    uint64_t at = 0, later = size, earlier = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      later /= shape[d];
      at += i / later % shape[d] * earlier;
      earlier *= shape[d];
    }
    std::memcpy(out.data() + at * item_size, &i, std::min(item_size, sizeof(i)));
  }
  return out;
}

void check_transposed(const std::vector<uint64_t>& shape, size_t item_size) {
  const auto file = file_of("head" + counting_in_fortran_order(shape, item_size));
  const auto out = to_c_order(*file, 4, shape, item_size);
  REQUIRE(out->size() == file->size() - 4);
  std::string bytes(out->size(), '\0');
  out->read_at(0, std::as_writable_bytes(std::span(bytes)));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < bytes.size() / item_size; ++i) {
    wrong += std::memcmp(bytes.data() + i * item_size, &i, std::min(item_size, sizeof(i))) != 0 ? 1 : 0;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("npy: one tensor, called array") {
  const auto source = opened(npy_of(header_text("<f4", "(2, 3)"), std::string(24, 'x')));
  CHECK(source->kind() == DumpKind::npy);
  REQUIRE(source->tensors().size() == 1);
  CHECK(source->tensors()[0].name == "array");
  CHECK(source->tensors()[0].shape == std::vector<uint64_t>{2, 3});
  CHECK(elements_of(*source) == std::string(24, 'x'));
  CHECK(source->tree().empty());
}

TEST_CASE("npy: scalars and empty arrays") {
  CHECK(elements_of(*opened(npy_of(header_text("<f4", "()"), "abcd"))) == "abcd");
  CHECK(elements_of(*opened(npy_of(header_text("<f4", "(3, 0, 2)", true)))).empty());
  CHECK(elements_of(*opened(npy_of(header_text("|S0", "(3, 2)", true)))).empty());
  CHECK(elements_of(*opened(npy_of(header_text("<f4", "(3, 1)", true), "0123456789ab"))) == "0123456789ab");
}

TEST_CASE("npy: big-endian words are swapped") {
  const std::string bytes = "0123456789abcdef";
  CHECK(elements_of(*opened(npy_of(header_text(">f2", "(8,)"), bytes))) == "1032547698badcfe");
  CHECK(elements_of(*opened(npy_of(header_text(">f4", "(4,)"), bytes))) == "32107654ba98fedc");
  CHECK(elements_of(*opened(npy_of(header_text(">c8", "(2,)"), bytes))) == "32107654ba98fedc");
  CHECK(elements_of(*opened(npy_of(header_text(">U2", "(2,)"), bytes))) == "32107654ba98fedc");
  CHECK(elements_of(*opened(npy_of(header_text(">M8[s]", "(2,)"), bytes))) == "76543210fedcba98");
  CHECK(elements_of(*opened(npy_of(header_text(">f16", "(1,)"), bytes))) == "fedcba9876543210");
  CHECK(elements_of(*opened(npy_of(header_text(">S8", "(2,)"), bytes))) == bytes);
  CHECK(elements_of(*opened(npy_of(header_text(">V2", "(8,)"), bytes))) == bytes);
  CHECK(elements_of(*opened(npy_of(header_text(">V2", "(8,)"), bytes), {true, false})) == "1032547698badcfe");
  CHECK(elements_of(*opened(npy_of(header_text(">f2", "(2, 4)", true), bytes))) == "105498dc3276bafe");
}

TEST_CASE("npy: the file is exactly as long as header and shape say") {
  const std::string whole = npy_of(header_text("<f4", "(5,)"), std::string(20, 'x'));
  REQUIRE(failure_to_open(whole).empty());
  for (size_t size = 0; size < whole.size(); ++size) {
    INFO(size);
    CHECK_THAT(failure_to_open(whole.substr(0, size)), StartsWith("3: "));
  }
  const std::string expected = "say " + std::to_string(whole.size()) + " bytes, ";
  CHECK_THAT(failure_to_open(whole.substr(0, whole.size() - 1)),
             Contains("too short") && Contains(expected + std::to_string(whole.size() - 1)) && Contains("'array'"));
  CHECK_THAT(failure_to_open(whole + "y"), StartsWith("3: ") && Contains("too long") && Contains(expected));
}

TEST_CASE("npy: shapes that no file can hold are refused") {
  for (const char* shape :
       {"(4294967296, 4294967296)", "(9223372036854775807, 2)", "(2305843009213693952,)", "(1000000000000000000,)",
        "(0, 4294967296, 4294967296)", "(4611686018427387904, 4)", "(65536, 65536, 65536, 65536)"}) {
    INFO(shape);
    CHECK_THAT(failure_to_open(npy_of(header_text("<f8", shape), "abcd")), StartsWith("3: "));
    CHECK_THAT(failure_to_open(npy_of(header_text("<f8", shape, true), "abcd")), StartsWith("3: "));
  }
}

TEST_CASE("npy: any range, by several threads, and not past the end") {
  std::string elements;
  for (uint32_t i = 0; i < 10000; ++i) elements += little_endian(i);
  const auto source = opened(npy_of(header_text("<u4", "(10000,)"), elements));
  const auto data = source->open(0);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<uint32_t> out(7);
      for (uint32_t first = t; first + 7 <= 10000; first += 13) {
        data->read({first, 7}, std::as_writable_bytes(std::span(out)));
        for (uint32_t i = 0; i < 7; ++i) wrong[t] += out[i] != first + i ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
  Bytes out(8);
  CHECK_THAT(failure_of([&] { data->read({9999, 2}, out); }), StartsWith("70: "));
  CHECK_THAT(failure_of([&] { data->read({0, 1}, out); }), StartsWith("70: "));
}

TEST_CASE("Fortran order becomes C order, whatever the shape") {
  for (const size_t item_size : {1, 2, 3, 4, 8, 16, 20}) {
    check_transposed({2, 2}, item_size);
    check_transposed({7, 5, 3}, item_size);
    check_transposed({1, 33, 1, 65, 1}, item_size);
    check_transposed({3, 4, 1, 5, 6}, item_size);
  }
  check_transposed(std::vector<uint64_t>(16, 2), 4);
}

TEST_CASE("Fortran order becomes C order, in several tiles") {
  check_transposed({3001, 2500}, 4);        // 30 MB: a square
  check_transposed({2, 4000001}, 4);        // flat
  check_transposed({4000001, 2}, 4);        // tall
  check_transposed({301, 11, 13, 201}, 4);  // a middle that is looped over
  check_transposed({5, 1500001, 3}, 2);
  check_transposed({6, 7, 3}, 1 << 18);  // few elements a tile
  check_transposed({3, 13}, 1 << 20);
}

TEST_CASE("Fortran order matters only with two dimensions over one") {
  const auto matters = [](std::vector<uint64_t> shape) { return order_matters(shape); };
  CHECK_FALSE(matters({}));
  CHECK_FALSE(matters({5}));
  CHECK_FALSE(matters({1, 5, 1}));
  CHECK_FALSE(matters({5, 0, 5}));
  CHECK(matters({2, 1, 2}));
}

TEST_CASE("npy: the sink takes exactly what was announced") {
  char dir[] = "/tmp/gradcodec-test-XXXXXX";
  REQUIRE(mkdtemp(dir) != nullptr);
  const std::string path = std::string(dir) + "/a.npy";
  const TensorInfo info{"t", DType::parse("f4"), {2}};
  {
    OutputFile output(path, false, {});
    CHECK_THAT(failure_of([&] {
                 make_sink(DumpKind::npy, output, {info, info}, {});
               }),
               StartsWith("2: ") && Contains("one tensor"));
    CHECK_THAT(failure_of([&] { make_sink(DumpKind::npy, output, {}, {}); }), StartsWith("2: "));
    const auto sink = make_sink(DumpKind::npy, output, {info}, {});
    CHECK_THAT(failure_of([&] { sink->begin({"u", info.dtype, info.shape}); }), StartsWith("70: "));
    CHECK_THAT(failure_of([&] { sink->write(as_bytes("abcd")); }), StartsWith("70: "));
    sink->begin(info);
    sink->write(as_bytes("abcd"));
    CHECK_THAT(failure_of([&] { sink->end(); }), StartsWith("70: "));
    CHECK_THAT(failure_of([&] { sink->finish(); }), StartsWith("70: "));
    CHECK_THAT(failure_of([&] { sink->write(as_bytes("efghi")); }), StartsWith("70: "));
    sink->write(as_bytes("efgh"));
    sink->end();
    sink->finish();
  }
  const auto source = open_source(path, {}, nullptr);
  CHECK(elements_of(*source) == "abcdefgh");
  std::remove(path.c_str());
  rmdir(dir);
}

TEST_CASE("dumps are known by their first bytes and made by their suffix") {
  CHECK_THAT(failure_to_open(""), StartsWith("3: ") && Contains("is empty"));
  CHECK_THAT(failure_to_open("hello"), StartsWith("3: ") && Contains("is no dump"));
  CHECK_THAT(failure_to_open(std::string(5000, '\0')), StartsWith("3: ") && Contains("is no dump"));
  CHECK(dump_kind_of("a/b.npy") == DumpKind::npy);
  CHECK(dump_kind_of("b.npz") == DumpKind::npz);
  CHECK(dump_kind_of("b.h5") == DumpKind::hdf5);
  CHECK(dump_kind_of("b.npz.hdf5") == DumpKind::hdf5);
  CHECK_FALSE(dump_kind_of("b.gradz").has_value());
  CHECK_FALSE(dump_kind_of("npy").has_value());
}
