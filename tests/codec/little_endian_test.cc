// SPDX-License-Identifier: Apache-2.0
#include "codec/little_endian.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

namespace gradcodec {
namespace {

template <typename... T>
std::vector<std::byte> bytes(T... values) {
  return {static_cast<std::byte>(values)...};
}

std::vector<std::byte> copy_of(std::span<const std::byte> view) { return {view.begin(), view.end()}; }

TEST_CASE("numbers have their lowest byte first, whatever the machine") {
  std::vector<std::byte> room(8);
  store_little(uint64_t{0x0102030405060708}, room.data());
  CHECK(room == bytes(8, 7, 6, 5, 4, 3, 2, 1));
  store_little(1.0F, room.data() + 1);  // 0x3F800000, at any alignment
  CHECK(room == bytes(8, 0, 0, 0x80, 0x3F, 3, 2, 1));
  CHECK(load_little<int16_t>(bytes(0xFE, 0xFF).data()) == -2);
  CHECK(load_little<double>(bytes(0, 0, 0, 0, 0, 0, 0xF0, 0xBF).data()) == -1.0);
}

TEST_CASE("an integer can be written and read in its first bytes alone") {
  const uint32_t stored = little(uint32_t{0x00020304});
  std::vector<std::byte> room(3);
  std::memcpy(room.data(), &stored, 3);
  CHECK(room == bytes(4, 3, 2));
  uint32_t word = 0;
  std::memcpy(&word, room.data(), 3);
  CHECK(little(word) == 0x00020304);
}

TEST_CASE("runs of numbers, in place too") {
  const std::vector<uint16_t> words = {0x0102, 0xFFFE};
  CHECK(copy_of(LittleBytes<uint16_t>(words)) == bytes(2, 1, 0xFE, 0xFF));
  CHECK(copy_of(LittleBytes<uint8_t>(std::vector<uint8_t>{1, 2})) == bytes(1, 2));
  CHECK(copy_of(LittleBytes<float>({})).empty());

  std::vector<std::byte> room(4);
  store_little(std::span(words), room.data());
  CHECK(room == bytes(2, 1, 0xFE, 0xFF));
  std::array<uint32_t, 2> values;
  const std::span<std::byte> there = std::as_writable_bytes(std::span(values));
  for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<std::byte>(i);
  load_little(there.data(), std::span<uint32_t>(values));
  CHECK(values == std::array<uint32_t, 2>{0x03020100, 0x07060504});
  load_little(nullptr, std::span<uint32_t>());
}

}  // namespace
}  // namespace gradcodec
