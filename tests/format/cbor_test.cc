// SPDX-License-Identifier: Apache-2.0
#include "format/cbor.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <limits>

using namespace gradcodec;

namespace {

Bytes from_hex(std::string_view hex) {
  Bytes out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

Exit refusal(const Bytes& bytes, const CborLimits& limits = {}) {
  try {
    check_cbor(bytes, "the record", limits);
  } catch (const Error& error) {
    return error.code();
  }
  return Exit::ok;
}

}  // namespace

TEST_CASE("what is written is accepted and comes back") {
  const double least = std::numeric_limits<double>::denorm_min();
  Cbor value = {{"b", 1},
                {"aa", {0, 23, 24, 255, 256, 65535, 65536, uint64_t{1} << 32, ~uint64_t{0}}},
                {"a", {-1, -24, -25, std::numeric_limits<int64_t>::min()}},
                {"", nullptr},
                {"\xC3\xA9", {true, false, "text", ""}},
                {"f", {0.0, -0.0, 1.5, 65504.0, 65505.0, 5.9604644775390625e-8, 6.1e-5, 0.1, 1e300, least, HUGE_VAL}}};
  value["bytes"] = Cbor::binary({1, 2, 255});
  const Bytes bytes = write_cbor(value);
  CHECK_NOTHROW(check_cbor(bytes, "x"));
  CHECK(parse_cbor(bytes, "x") == value);
  CHECK(write_cbor(parse_cbor(bytes, "x")) == bytes);
}

TEST_CASE("encodings of RFC 8949, appendix A") {
  CHECK(write_cbor(Cbor(1000000000000)) == from_hex("1b000000e8d4a51000"));
  CHECK(write_cbor(Cbor(-1000)) == from_hex("3903e7"));
  CHECK(write_cbor(Cbor(1.0)) == from_hex("f93c00"));
  CHECK(write_cbor(Cbor(100000.0)) == from_hex("fa47c35000"));
  CHECK(write_cbor(Cbor(1.1)) == from_hex("fb3ff199999999999a"));
  CHECK(write_cbor(Cbor(5.960464477539063e-8)) == from_hex("f90001"));
  CHECK(write_cbor(Cbor(0.00006103515625)) == from_hex("f90400"));
  CHECK(write_cbor(Cbor(std::nan(""))) == from_hex("f97e00"));
  CHECK(write_cbor(Cbor(-HUGE_VAL)) == from_hex("f9fc00"));
  CHECK(write_cbor(Cbor({{"aa", 1}, {"b", 2}})) == from_hex("a261620262616101"));
}

TEST_CASE("whatever has a second encoding is refused") {
  const char* bad[] = {
      "",                    // nothing
      "1817",                // 23 in two bytes
      "1900ff",              // 255 in three
      "1a0000ffff",          // 65535 in five
      "1b00000000ffffffff",  // 2^32 - 1 in nine
      "580161",              // length 1 in two bytes
      "5f4161ff",            // indefinite byte string
      "7f6161ff",            // indefinite text
      "9f01ff",              // indefinite array
      "bf616101ff",          // indefinite map
      "1c",
      "1f",                  // reserved
      "3bffffffffffffffff",  // below -2^63
      "c001",                // a tag
      "d9d9f7f6",            // self-described CBOR
      "f7",
      "f0",
      "f820",                // undefined, unassigned
      "a20101",              // integer key
      "a2616201616101",      // unsorted
      "a262616101616202",    // longer key first
      "a2616101616102",      // repeated
      "62c0af",              // overlong UTF-8
      "63eda080",            // a surrogate
      "fa3f800000",          // 1.0 in four bytes
      "fb3ff0000000000000",  // 1.0 in eight
      "fa7fc00000",          // NaN in four
      "f97e01",
      "f9fe00",                    // other NaNs
      "0000",                      // two items
      "6261",                      // text ends too early
      "5bffffffffffffffff00",      // 2^64 - 1 bytes claimed
      "9bffffffffffffffff00",      // 2^64 - 1 elements claimed
      "bbffffffffffffffff616100",  // 2^64 - 1 entries claimed
  };
  for (const char* hex : bad) {
    INFO(hex);
    CHECK(refusal(from_hex(hex)) == Exit::bad_input);
  }
}

TEST_CASE("nesting and size are limited") {
  Bytes deep(16, std::byte{0x81});
  deep.push_back(std::byte{0});
  CHECK(refusal(deep) == Exit::ok);
  deep.insert(deep.begin(), std::byte{0x81});
  CHECK(refusal(deep) == Exit::bad_input);

  CHECK(refusal(Bytes(100'000, std::byte{0x81})) == Exit::bad_input);
  Bytes maps;
  for (int i = 0; i < 100'000; ++i) put_bytes(maps, from_hex("a16161"));
  CHECK(refusal(maps) == Exit::bad_input);

  CHECK(refusal(from_hex("83010203"), {.size = 3}) == Exit::limit);
  CHECK(refusal(from_hex("83010203"), {.size = 4}) == Exit::ok);
}

TEST_CASE("values outside the subset are not written") {
  CHECK_THROWS_AS(write_cbor(Cbor("\xFF")), Error);
  CHECK_THROWS_AS(write_cbor(Cbor::binary({1}, 7)), Error);
  Cbor deep = 0;
  for (int i = 0; i < 17; ++i) deep = Cbor::array({deep});
  CHECK_THROWS_AS(write_cbor(deep), Error);
}

TEST_CASE("every cut and every flipped bit is refused or still canonical") {
  const Bytes whole = write_cbor(Cbor({{"name", "x"}, {"dims", {1, 300, 70000}}, {"deep", {{{"k", -5.25}}}}}));
  for (size_t len = 0; len < whole.size(); ++len) {
    CHECK(refusal(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(len))) == Exit::bad_input);
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes changed = whole;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    if (refusal(changed) == Exit::ok) CHECK(write_cbor(parse_cbor(changed, "x")) == changed);
  }
}
