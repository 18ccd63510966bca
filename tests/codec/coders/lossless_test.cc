// What must hold for every coder of the registry, on every alphabet and length at which something changes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "codec/random.h"
#include "codec/registry.h"

using namespace gradcodec;

namespace {

constexpr uint32_t kAlphabets[] = {0, 1, 2, 3, 4, 5, 7, 16, 17, 255, 256, 257, 1000, 65535, 65536};
constexpr uint32_t kLengths[] = {0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 4096, 70000};

uint32_t random_word(uint32_t i, uint32_t key) { return philox({key, 0}, {i, 0, 0, 0})[0]; }

// The number of leading zeros of a random word: 0 half of the time, 1 a quarter, ...
uint32_t geometric(uint32_t i) { return static_cast<uint32_t>(std::countl_zero(random_word(i, 2))); }

struct Distribution {
  const char* name;
  std::function<uint32_t(uint32_t i, uint32_t count, uint32_t top)> symbol;  // 0 to `top`
};

const std::vector<Distribution>& distributions() {
  static const std::vector<Distribution> all = {
      {"all the same", [](uint32_t, uint32_t, uint32_t top) { return top / 3; }},
      {"uniform", [](uint32_t i, uint32_t, uint32_t top) { return random_word(i, 1) % (top + 1); }},
      {"peaked at the middle",
       [](uint32_t i, uint32_t, uint32_t top) {
         const uint32_t middle = (top + 1) / 2, distance = geometric(i);
         return random_word(i, 3) % 2 == 0 ? middle - std::min(distance, middle) : std::min(middle + distance, top);
       }},
      {"peaked at one end", [](uint32_t i, uint32_t, uint32_t top) { return top - std::min(geometric(i), top); }},
      {"alternating", [](uint32_t i, uint32_t, uint32_t top) { return i % 2 == 0 ? 0 : top; }},
      {"one outlier", [](uint32_t i, uint32_t count, uint32_t top) { return i == count / 2 ? top : (top + 1) / 2; }},
  };
  return all;
}

Stream make_stream(uint32_t alphabet, uint32_t count, const Distribution& distribution) {
  Stream out;
  out.alphabet = alphabet;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t symbol = distribution.symbol(i, count, (alphabet == 0 ? 256 : alphabet) - 1);
    if (alphabet == 0) out.bytes.push_back(static_cast<std::byte>(symbol));
    if (alphabet != 0) out.symbols.push_back(static_cast<uint16_t>(symbol));
  }
  // Contexts that say nothing, for some streams, of all numbers of classes.
  if (alphabet == 0 || count % 2 == 0) return out;
  out.classes = 1 + count % 64;
  for (uint32_t i = 0; i < count; ++i) out.contexts.push_back(static_cast<uint16_t>(i * 7919 % (2 * out.classes)));
  return out;
}

Bytes shrink(const Coder& coder, const Stream& stream) {
  Bytes out;
  coder.shrink(stream, out);
  return out;
}

// All that a decoder knows of `like` beside the payload, in a stream that held something else before.
Stream expand(const Coder& coder, ByteView in, const Stream& like) {
  Stream out = like;
  out.symbols.assign(3, 65535);
  out.bytes.assign(5, std::byte{7});
  coder.expand(in, like.count(), out);
  return out;
}

void check_lossless(const Coder& coder, const Stream& stream, const Bytes& payload) {
  const Stream back = expand(coder, payload, stream);
  REQUIRE(back.symbols == stream.symbols);
  REQUIRE(back.bytes == stream.bytes);
  if (coder.is_canonical()) REQUIRE(shrink(coder, stream) == payload);
  const std::optional<uint64_t> size = coder.fixed_size(stream.alphabet, stream.count());
  if (size) REQUIRE(*size == payload.size());
}

void check_appends(const Coder& coder, const Stream& stream, const Bytes& payload) {
  if (!coder.is_canonical()) return;
  const Bytes before = {std::byte{1}, std::byte{2}, std::byte{255}};
  Bytes out = before;
  coder.shrink(stream, out);
  REQUIRE(std::equal(before.begin(), before.end(), out.begin()));
  REQUIRE(std::equal(payload.begin(), payload.end(), out.begin() + 3, out.end()));
}

// Refused as bad input, or decoded to as many symbols, all of the alphabet.
void check_damaged(const Coder& coder, const Stream& stream, const Bytes& payload) {
  Stream out;
  try {
    out = expand(coder, payload, stream);
  } catch (const Error& error) {
    REQUIRE(error.code() == Exit::bad_input);
    return;
  }
  REQUIRE(out.count() == stream.count());
  REQUIRE((stream.alphabet == 0 ? out.symbols.size() : out.bytes.size()) == 0);
  const auto largest = std::max_element(out.symbols.begin(), out.symbols.end());
  if (largest != out.symbols.end()) REQUIRE(*largest < stream.alphabet);
}

void check_lengths(const Coder& coder, const Stream& stream, const Bytes& payload) {
  Bytes other = payload;
  for (const int extra : {0, 1, 255}) {
    other.push_back(static_cast<std::byte>(extra));
    check_damaged(coder, stream, other);
    other.pop_back();
  }
  if (payload.empty()) return;
  other.pop_back();
  check_damaged(coder, stream, other);
  check_damaged(coder, stream, {});
}

// Bits flipped and bytes replaced, near the start (where tables and sizes stand) and anywhere.
void check_mutations(const Coder& coder, const Stream& stream, const Bytes& payload) {
  if (payload.empty()) return;
  const uint32_t trials = stream.count() > 4096 ? 4 : 24;
  for (uint32_t trial = 0; trial < trials; ++trial) {
    Bytes other = payload;
    for (uint32_t i = 0; i <= trial % 3; ++i) {
      const uint32_t word = random_word(3 * trial + i, 4);
      const size_t range = trial % 2 == 0 ? std::min<size_t>(16, other.size()) : other.size();
      std::byte& place = other[word % range];
      place = trial % 4 < 2 ? place ^ std::byte{1} << (word >> 29) : static_cast<std::byte>(word >> 24);
    }
    check_damaged(coder, stream, other);
  }
}

}  // namespace

TEST_CASE("every coder gives every symbol back, and damaged bytes give none outside the alphabet") {
  for (const Coder* coder : all_coders()) {
    for (const uint32_t alphabet : kAlphabets) {
      for (const uint32_t count : kLengths) {
        for (const Distribution& distribution : distributions()) {
          INFO(coder->name() << ", alphabet " << alphabet << ", " << count << " symbols, " << distribution.name);
          const Stream stream = make_stream(alphabet, count, distribution);
          const Bytes payload = shrink(*coder, stream);
          check_lossless(*coder, stream, payload);
          check_appends(*coder, stream, payload);
          check_lengths(*coder, stream, payload);
          check_mutations(*coder, stream, payload);
        }
      }
    }
  }
}
