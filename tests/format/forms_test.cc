// SPDX-License-Identifier: Apache-2.0
#include "format/forms.h"

#include <catch2/catch.hpp>

#include "codec/random.h"
#include "codec/registry.h"

using namespace gradcodec;

namespace {

Stream symbols(uint32_t alphabet, std::vector<uint16_t> values) { return {alphabet, std::move(values), {}}; }

std::vector<Stream> read_back(const Bytes& bytes, Form form, const std::vector<StreamShape>& shapes,
                              const Coder& coder) {
  ByteReader in(bytes, "payload");
  std::vector<Stream> out;
  read_streams(in, form, shapes, coder, out);
  return out;
}

}  // namespace

TEST_CASE("each form comes back, and the smallest is chosen") {
  const Coder& pack = coder_named("pack");
  const Coder& zstd = coder_named("zstd");
  std::vector<uint16_t> random(1000), mostly_zero(1000, 1);
  for (size_t i = 0; i < random.size(); ++i) {
    random[i] = static_cast<uint16_t>(philox({1, 2}, {static_cast<uint32_t>(i), 0, 0, 0})[0] % 3);
  }
  mostly_zero[500] = 2;
  const auto form_of = [](const Stream& stream, const Coder& coder) {
    Bytes out;
    const Form form = write_streams(std::span<const Stream>(&stream, 1), coder, true, out);
    const std::vector<StreamShape> shapes = {{stream.alphabet, stream.count()}};
    CHECK(read_back(out, form, shapes, coder)[0].symbols == stream.symbols);
    return form;
  };
  CHECK(form_of(symbols(3, random), pack) == Form::coder);
  CHECK(form_of(symbols(3, random), zstd) == Form::stored);
  CHECK(form_of(symbols(3, mostly_zero), zstd) == Form::coder);
  CHECK(form_of(symbols(3, std::vector<uint16_t>(1000, 2)), zstd) == Form::constant);
  CHECK(form_of(symbols(3, {}), pack) == Form::coder);
  CHECK(form_of(symbols(1, std::vector<uint16_t>(1000, 0)), pack) == Form::coder);  // takes no bytes at all
  Bytes out;
  const Stream constant = symbols(3, std::vector<uint16_t>(10, 2));
  CHECK(write_streams(std::span<const Stream>(&constant, 1), pack, false, out) == Form::coder);
}

TEST_CASE("several streams stand behind their lengths") {
  const std::vector<Stream> streams = {
      symbols(5, {0, 1, 2, 3, 4, 0, 1}), {0, {}, Bytes(3, std::byte{9})}, symbols(300, {299, 0})};
  const std::vector<StreamShape> shapes = {{5, 7}, {0, 3}, {300, 2}};
  for (const Coder* coder : all_coders()) {
    Bytes out;
    const Form form = write_streams(streams, *coder, true, out);
    const std::vector<Stream> back = read_back(out, form, shapes, *coder);
    CHECK(back[0].symbols == streams[0].symbols);
    CHECK(back[1].bytes == streams[1].bytes);
    CHECK(back[2].symbols == streams[2].symbols);
    for (size_t size = 0; size < out.size(); ++size) {
      CHECK_THROWS_AS(read_back(Bytes(out.begin(), out.begin() + static_cast<ptrdiff_t>(size)), form, shapes, *coder),
                      Error);
    }
    out.push_back(std::byte{0});
    CHECK_THROWS_AS(read_back(out, form, shapes, *coder), Error);
  }
}

TEST_CASE("exceptions are in order and in the chunk") {
  const std::vector<Exception> list = {{0, 0x7FC00000}, {1, 1}, {299, 0xFF800000}};
  Bytes out;
  write_exceptions(list, out);
  CHECK(out.size() == 1 + 3 * 4 + 1 + 1 + 2);
  const auto read = [](const Bytes& bytes, uint64_t len) {
    ByteReader in(bytes, "payload");
    std::vector<Exception> back;
    read_exceptions(in, len, false, back);
    in.expect_end();
    return back;
  };
  const std::vector<Exception> back = read(out, 300);
  REQUIRE(back.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK((back[i].index == list[i].index && back[i].bits == list[i].bits));
  CHECK_THROWS_AS(read(out, 299), Error);
  CHECK_THROWS_AS(read({std::byte{0}}, 300), Error);
  CHECK_THROWS_AS(read(out, 2), Error);
  Bytes huge;
  put_varint(huge, 2);
  put_varint(huge, 5);
  put(huge, 0U);
  put_varint(huge, (uint64_t{1} << 63) - 1);  // an index that would wrap
  put(huge, 0U);
  CHECK_THROWS_AS(read(huge, 300), Error);
  Bytes none;
  write_exceptions({}, none);
  CHECK(none.empty());
}

TEST_CASE("stored form is refused where the coder is pack already") {
  CHECK_THROWS_AS(read_back({std::byte{1}}, Form::stored, {{3, 2}}, coder_named("pack")), Error);
  CHECK_THROWS_AS(read_back({std::byte{3}}, Form::constant, {{3, 2}}, coder_named("pack")), Error);
  CHECK_THROWS_AS(read_back({std::byte{0}}, Form::constant, {{3, 0}}, coder_named("pack")), Error);
}
