// SPDX-License-Identifier: Apache-2.0
#include "codec/coders/pack.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace gradcodec;

namespace {

Stream make_stream(uint32_t alphabet, size_t count, uint32_t seed = 1) {
  Stream stream;
  stream.alphabet = alphabet;
  uint64_t state = seed;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const auto symbol = static_cast<uint16_t>((state >> 40) % alphabet);
    const bool top = state >> 62 == 3;  // often the largest, so that groups come near their limit
    stream.symbols.push_back(top ? static_cast<uint16_t>(alphabet - 1) : symbol);
  }
  return stream;
}

Bytes pack(const Stream& stream) {
  Bytes out;
  pack_coder().shrink(stream, out);
  return out;
}

Stream unpack(ByteView in, uint32_t alphabet, uint64_t count) {
  Stream out;
  out.alphabet = alphabet;
  pack_coder().expand(in, count, out);
  return out;
}

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

void check_round_trip(uint32_t alphabet, size_t count) {
  INFO("alphabet " << alphabet << ", " << count << " symbols");
  const Stream stream = make_stream(alphabet, count);
  const Bytes packed = pack(stream);
  REQUIRE(pack_coder().fixed_size(alphabet, count) == packed.size());
  REQUIRE(unpack(packed, alphabet, count).symbols == stream.symbols);
  REQUIRE_THROWS_AS(unpack(ByteView(packed).first(packed.size() - 1), alphabet, count), Error);
  Bytes longer = packed;
  longer.push_back(std::byte{0});
  REQUIRE_THROWS_AS(unpack(longer, alphabet, count), Error);
}

const std::vector<uint32_t> kLargeAlphabets = {301,   511,   512,   513,   1000,  1023,  1024,  1025,
                                               2048,  3000,  4095,  4096,  4097,  7131,  16383, 16384,
                                               16385, 32767, 32768, 32769, 50000, 65535, 65536};

}  // namespace

TEST_CASE("groups are the best of up to eight bytes") {
  const auto check = [](uint32_t alphabet, uint32_t size, uint32_t digits, uint64_t max_value) {
    INFO("alphabet " << alphabet);
    const auto group = pack_group(alphabet);
    CHECK(group.size == size);
    CHECK(group.digits == digits);
    CHECK(group.max_value == max_value);
  };
  check(2, 1, 8, 255);
  check(3, 1, 5, 242);
  check(4, 1, 4, 255);
  check(5, 7, 24, 59604644775390624);
  check(7, 6, 17, 232630513987206);
  check(8, 3, 8, 16777215);
  check(15, 1, 2, 224);
  check(16, 1, 2, 255);
  check(17, 8, 15, 2862423051509815792);
  check(255, 1, 1, 254);
  check(256, 1, 1, 255);
  check(257, 8, 7, 74051159531521792);
  check(65535, 2, 1, 65534);
  check(65536, 2, 1, 65535);
}

TEST_CASE("no group has room for one digit more, and none has fewer bits a digit") {
  for (uint32_t alphabet = 2; alphabet <= 65536; alphabet += alphabet < 2000 ? 1 : 997) {
    const auto group = pack_group(alphabet);
    const double bits = std::log2(alphabet), slack = 1e-9;
    const double rate = 8.0 * group.size / group.digits;
    for (uint32_t size = 1; size <= 8; ++size) {
      const double digits = std::floor(8 * size / bits + slack);
      if (digits < 1) continue;
      INFO("alphabet " << alphabet << ", " << size << " bytes");
      const double other = 8 * size / digits;
      REQUIRE((size < group.size ? other > rate : other >= rate));
      if (size == group.size) REQUIRE(digits == group.digits);
    }
  }
}

TEST_CASE("packed symbols come back, for every alphabet up to 300 and some up to 65,536") {
  std::vector<uint32_t> alphabets = kLargeAlphabets;
  for (uint32_t alphabet = 2; alphabet <= 300; ++alphabet) alphabets.push_back(alphabet);
  for (const uint32_t alphabet : alphabets) {
    const uint32_t digits = pack_group(alphabet).digits;
    for (const size_t count : {size_t{1}, size_t{2}, size_t{digits}, size_t{digits + 1}, size_t{1000}, size_t{6001}}) {
      check_round_trip(alphabet, count);
    }
    for (uint32_t count = 1; count < 2 * digits; ++count) check_round_trip(alphabet, count);
  }
}

TEST_CASE("digits are in the order of the specification") {
  // spec/coders/pack.md, the worked examples.
  CHECK(pack({3, {2, 0, 1, 1, 2, 1, 2}, {}}) == bytes_of({0xC8, 0x07}));
  CHECK(pack({300, {299, 1, 0, 7}, {}}) == bytes_of({0x97, 0xEB, 0x43, 0x0B, 0x00}));
  CHECK(pack({65536, {0xABCD, 0x0123}, {}}) == bytes_of({0xCD, 0xAB, 0x23, 0x01}));
  CHECK(pack({8, {1, 2, 3, 4, 5, 6, 7, 0, 5}, {}}) == bytes_of({0xD1, 0x58, 0x1F, 0x05}));
}

TEST_CASE("alphabets of no and one symbol") {
  CHECK(pack({1, {0, 0, 0}, {}}).empty());
  CHECK(unpack({}, 1, 3).symbols == std::vector<uint16_t>(3));
  CHECK_THROWS_AS(unpack(bytes_of({0}), 1, 3), Error);
  const Bytes bytes = bytes_of({1, 2, 255});
  CHECK(pack({0, {}, bytes}) == bytes);
  CHECK(unpack(bytes, 0, 3).bytes == bytes);
  CHECK_THROWS_AS(unpack(bytes, 0, 2), Error);
  CHECK(unpack({}, 0, 0).bytes.empty());
  for (const uint32_t alphabet : {0, 1, 2, 3, 5, 300, 65536}) {
    CHECK(pack_coder().fixed_size(alphabet, 0) == 0);
    CHECK(unpack({}, alphabet, 0).count() == 0);
    CHECK_THROWS_AS(unpack(bytes_of({0}), alphabet, 0), Error);
  }
}

TEST_CASE("a group that no symbols give is refused, wherever it stands") {
  for (uint32_t alphabet = 2; alphabet <= 1100; ++alphabet) {
    const auto group = pack_group(alphabet);
    for (const size_t groups : {3, 700}) {
      const size_t count = groups * group.digits;
      const Bytes packed = pack(make_stream(alphabet, count));
      const uint64_t over = group.max_value + 1;
      if (group.size == 8 ? over == 0 : over >> (8 * group.size) != 0) continue;  // every value is a group
      for (const size_t at : {size_t{0}, groups / 2, groups - 1}) {
        Bytes bad = packed;
        std::memcpy(bad.data() + at * group.size, &over, group.size);
        INFO("alphabet " << alphabet << ", group " << at);
        REQUIRE_THROWS_AS(unpack(bad, alphabet, count), Error);
        std::memcpy(bad.data() + at * group.size, &group.max_value, group.size);
        REQUIRE_NOTHROW(unpack(bad, alphabet, count));
      }
    }
  }
  CHECK_THROWS_AS(unpack(bytes_of({0, 9}), 3, 7), Error);  // the last group: 3^2 = 9
  CHECK_NOTHROW(unpack(bytes_of({0, 8}), 3, 7));
}

TEST_CASE("counts and alphabets out of range are refused") {
  CHECK_THROWS_AS(pack_coder().fixed_size(3, ~uint64_t{0}), Error);
  CHECK_THROWS_AS(pack_coder().fixed_size(65537, 1), Error);
  CHECK_THROWS_AS(unpack({}, 65536, uint64_t{1} << 50), Error);  // by its length: nothing is allocated
}

TEST_CASE("shrink appends") {
  Bytes out = bytes_of({9});
  pack_coder().shrink({256, {7}, {}}, out);
  CHECK(out == bytes_of({9, 7}));
}

TEST_CASE("what a stream held before does not show") {
  for (const Coder* coder : {&pack_coder(), &aligned_pack()}) {
    Stream used;
    used.alphabet = 1;
    used.symbols.assign(100, 7);
    used.bytes.assign(3, std::byte{1});
    coder->expand({}, 50, used);
    CHECK(used.symbols == std::vector<uint16_t>(50, 0));
    CHECK(used.bytes.empty());
  }
}
