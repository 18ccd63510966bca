// SPDX-License-Identifier: Apache-2.0
#include "codec/tensor.h"

#include <catch2/catch.hpp>

#include "codec/error.h"
#include "codec/utf8.h"

using namespace gradcodec;

TEST_CASE("dtype texts parse to themselves") {
  for (const char* text : {"f2", "f4", "f8", "bf16", "i1", "u8", "bool", "c8", "c16", "S0", "S12", "U7", "V8", "M8[ns]",
                           "m8[25us]", "M8", "f16", "c32"}) {
    CHECK(DType::parse(text).name() == text);
  }
  CHECK(DType::parse("U7").item_size() == 28);
  CHECK(DType::parse("U7").word_size() == 4);
  CHECK(DType::parse("c16").word_size() == 8);
  CHECK(DType::parse("S0").item_size() == 0);
  for (const char* text : {"", "f", "f3", "S", "S-1", "S01", "S+1", "U99999999999", "O", "M8[", "M8[]", "<f4", "V 2"}) {
    CHECK_THROWS_AS(DType::parse(text), Error);
  }
}

TEST_CASE("a tensor's size can never wrap") {
  const auto fails = [](std::vector<uint64_t> shape, const char* dtype) {
    const TensorInfo info{"t", DType::parse(dtype), std::move(shape)};
    CHECK_THROWS_AS(check_tensor_info(info), Error);
  };
  fails({uint64_t{1} << 32, uint64_t{1} << 32}, "i1");
  fails({uint64_t{1} << 63, 2}, "i1");
  fails({uint64_t{1} << 61}, "f8");
  fails({0, uint64_t{1} << 40, uint64_t{1} << 40}, "f4");
  fails(std::vector<uint64_t>(33, 1), "f4");
  check_tensor_info({"t", DType::parse("f4"), {(uint64_t{1} << 61) - 1}});
  check_tensor_info({"t", DType::parse("f4"), {0, 5}});
  check_tensor_info({"t", DType::parse("S0"), {5}});
}

TEST_CASE("names are checked and printed escaped") {
  const auto fails = [](std::string name) {
    const TensorInfo info{std::move(name), {}, {}};
    CHECK_THROWS_AS(check_tensor_info(info), Error);
  };
  fails("");
  fails(std::string(65536, 'a'));
  fails(std::string("a\0b", 3));
  fails("\xFF");
  fails("\xC0\xAF");          // overlong
  fails("\xED\xA0\x80");      // surrogate
  fails("\xF4\x90\x80\x80");  // above U+10FFFF
  check_tensor_info({std::string(65535, 'a'), {}, {}});
  CHECK(escaped("a\x1b[2Jb\\") == "a\\x1b[2Jb\\x5c");
  CHECK(escaped("\xC3\xA9\xC2\x9B") == "\xC3\xA9\\xc2\\x9b");
  CHECK(is_utf8("\xF4\x8F\xBF\xBF"));
}
