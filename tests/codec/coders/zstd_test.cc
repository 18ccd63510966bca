// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/zstd.h"

#include <catch2/catch.hpp>

#include "codec/coders/pack.h"

using namespace gradcodec;

namespace {

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

Stream some_symbols(uint32_t alphabet, size_t count) {
  Stream stream;
  stream.alphabet = alphabet;
  for (size_t i = 0; i < count; ++i) stream.symbols.push_back(static_cast<uint16_t>(i * i / 7 % alphabet));
  return stream;
}

Bytes shrink(const Stream& stream, int level = 3) {
  Bytes out;
  zstd_coder(level).shrink(stream, out);
  return out;
}

Stream expand(ByteView in, uint32_t alphabet, uint64_t count) {
  Stream out;
  out.alphabet = alphabet;
  zstd_coder(1).expand(in, count, out);
  return out;
}

Bytes joined(ByteView a, ByteView b) {
  Bytes out(a.begin(), a.end());
  put_bytes(out, b);
  return out;
}

std::string error_of(ByteView in, uint64_t count) {
  try {
    expand(in, 0, count);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_input);
    return error.text();
  }
  return "";
}

}  // namespace

TEST_CASE("zstd: symbols and bytes come back, at every level") {
  for (const int level : {1, 3, 9, 19, 22}) {
    for (const uint32_t alphabet : {1, 2, 3, 5, 257, 65536}) {
      for (const size_t count : {0, 1, 2, 100, 30000}) {
        const Stream stream = some_symbols(alphabet, count);
        INFO("level " << level << ", alphabet " << alphabet << ", " << count << " symbols");
        REQUIRE(expand(shrink(stream, level), alphabet, count).symbols == stream.symbols);
      }
    }
  }
  Stream bytes;
  for (int i = 0; i < 1000; ++i) bytes.bytes.push_back(static_cast<std::byte>(i / 9));
  CHECK(expand(shrink(bytes), 0, 1000).bytes == bytes.bytes);
  CHECK(shrink(bytes).size() < 700);
  CHECK_FALSE(zstd_coder(1).fixed_size(3, 100).has_value());
}

TEST_CASE("zstd: levels are 1 to 22") {
  for (const int level : {-5, 0, 23}) CHECK_THROWS_AS(zstd_coder(level), Error);
  CHECK(zstd_coder(22).id() == 1);
}

TEST_CASE("zstd: the worked example of its specification") {
  // The packed bytes of 7 ternary symbols, C8 07, in a raw block.
  const Bytes frame = bytes_of({0x28, 0xB5, 0x2F, 0xFD, 0x20, 0x02, 0x11, 0x00, 0x00, 0xC8, 0x07});
  CHECK(expand(frame, 3, 7).symbols == std::vector<uint16_t>{2, 0, 1, 1, 2, 1, 2});
  CHECK(shrink({3, {2, 0, 1, 1, 2, 1, 2}, {}}) == frame);
}

TEST_CASE("zstd: whatever is cut off, added or changed in the header is refused") {
  const Stream stream = some_symbols(3, 5000);
  const Bytes good = shrink(stream);
  for (size_t len = 0; len < good.size(); ++len) {
    REQUIRE_THROWS_AS(expand(ByteView(good).first(len), 3, 5000), Error);
  }
  CHECK_THROWS_AS(expand(joined(good, bytes_of({0})), 3, 5000), Error);
  CHECK_THROWS_AS(expand(joined(good, good), 3, 10000), Error);
  CHECK_THROWS_AS(expand(joined(good, shrink({})), 3, 5000), Error);                                      // empty frame
  CHECK_THROWS_AS(expand(joined(good, bytes_of({0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0})), 3, 5000), Error);  // skippable
  CHECK_THROWS_AS(expand(joined(bytes_of({0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0}), good), 3, 5000), Error);
  CHECK_THROWS_AS(expand(good, 3, 4999 - 5), Error);
  CHECK_THROWS_AS(expand(good, 3, 5001 + 5), Error);
}

TEST_CASE("zstd: any changed byte is refused or gives symbols of the alphabet") {
  const Bytes good = shrink(some_symbols(3, 2000));
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int change : {1, 0x10, 0x80, 0xFF}) {
      Bytes bad = good;
      bad[at] ^= static_cast<std::byte>(change);
      try {
        const Stream out = expand(bad, 3, 2000);
        REQUIRE(out.symbols.size() == 2000);
        for (const uint16_t symbol : out.symbols) REQUIRE(symbol < 3);
      } catch (const Error& error) {
        REQUIRE(error.code() == Exit::bad_input);
      }
    }
  }
}

TEST_CASE("zstd: frame headers that shrink never writes are refused") {
  const std::initializer_list<int> magic = {0x28, 0xB5, 0x2F, 0xFD};
  const Bytes raw_block = bytes_of({0x11, 0x00, 0x00, 0xC8, 0x07});
  const auto with_header = [&](std::initializer_list<int> header) {
    return joined(joined(bytes_of(magic), bytes_of(header)), raw_block);
  };
  CHECK(error_of(with_header({0x20, 0x02}), 2).empty());
  CHECK(error_of(with_header({0x20, 0x03}), 2).find("3 bytes where 2") != std::string::npos);
  CHECK(error_of(with_header({0x20, 0x03}), 3) != "");
  CHECK(error_of(with_header({0x21, 0x07, 0x02}), 2).find("dictionary") != std::string::npos);
  CHECK(error_of(joined(with_header({0x24, 0x02}), bytes_of({0, 0, 0, 0})), 2).find("checksum") != std::string::npos);
  CHECK(error_of(with_header({0x28, 0x02}), 2).find("must be zero") != std::string::npos);
  CHECK(error_of(with_header({0x30, 0x02}), 2).find("must be zero") != std::string::npos);
  CHECK(error_of(with_header({0x00, 0x58}), 2).find("content size") != std::string::npos);  // unknown
  // A window of 2^27 is the most; 4-byte content size.
  CHECK(error_of(with_header({0x80, 0x88, 0x02, 0, 0, 0}), 2).empty());
  CHECK(error_of(with_header({0x80, 0x89, 0x02, 0, 0, 0}), 2).find("window") != std::string::npos);
  CHECK(error_of(with_header({0x80, 0xFF, 0x02, 0, 0, 0}), 2).find("window") != std::string::npos);
}

TEST_CASE("zstd: a bomb costs what the caller expects, not what it says or holds") {
  // An 8-byte content size of 2^62: refused by the header.
  const Bytes huge = bytes_of({0x28, 0xB5, 0x2F, 0xFD, 0xE0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x03, 0x00, 0x00});
  CHECK(error_of(huge, 100).find("are expected") != std::string::npos);
  // Says 100 bytes, but its blocks repeat one byte 2^17 times, and again.
  Bytes bomb = bytes_of({0x28, 0xB5, 0x2F, 0xFD, 0x20, 100});
  for (int i = 0; i < 50; ++i) put_bytes(bomb, bytes_of({0x02, 0x00, 0x10, 0x55}));
  put_bytes(bomb, bytes_of({0x03, 0x00, 0x10, 0x55}));
  CHECK(error_of(bomb, 100).find("damaged") != std::string::npos);
}
