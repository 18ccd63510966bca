// SPDX-License-Identifier: Apache-2.0
#include "codec/indices.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "codec/random.h"

using namespace gradcodec;

namespace {

using Indices = std::vector<uint32_t>;

Bytes put(const Indices& indices, uint64_t n) {
  Bytes out;
  put_indices(out, indices, n);
  return out;
}

Indices take(ByteView bytes, uint64_t count, uint64_t n) {
  ByteReader in(bytes, "list");
  Indices out;
  take_indices(in, count, n, out);
  in.expect_end();
  return out;
}

// A subset of k of n, each as likely: the places of the k smallest words.
Indices random_subset(uint64_t n, uint64_t k, uint32_t seed) {
  std::vector<uint32_t> words(n), places(n);
  kernels::scalar::philox_words({{seed, 0}, 0, 0}, 0, n, words.data());
  std::iota(places.begin(), places.end(), 0U);
  const auto middle = places.begin() + static_cast<ptrdiff_t>(k);
  const auto order = [&](uint32_t a, uint32_t b) { return std::pair(words[a], a) < std::pair(words[b], b); };
  if (middle != places.end()) std::nth_element(places.begin(), middle, places.end(), order);
  places.erase(middle, places.end());
  std::sort(places.begin(), places.end());
  return places;
}

double log2_choose(double n, double k) {
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2.0);
}

// Bits as text, the first in the lowest bit of the first byte; spaces are for the reader.
Bytes bytes_of_bits(std::string_view text) {
  Bytes out;
  size_t count = 0;
  for (const char c : text) {
    if (c == ' ') continue;
    if (count % 8 == 0) out.push_back(std::byte{0});
    if (c == '1') out.back() |= static_cast<std::byte>(1 << count % 8);
    ++count;
  }
  return out;
}

}  // namespace

TEST_CASE("lists of indices by hand") {
  CHECK(put({}, 0).empty());
  CHECK(put({}, 1000).empty());
  CHECK(put({0, 1, 2}, 3).empty());
  CHECK(take({}, 3, 3) == Indices{0, 1, 2});
  // Gaps 2, 0, 3: at r = 0 of 8 bits, at r = 1 of 8 as well.
  CHECK(put({2, 3, 7}, 9) == bytes_of_bits("00000 001 1 0001"));
  // Gaps 5 and 6: at r = 2 of 8 bits, at r = 1 of 9, at r = 3 of 8.
  CHECK(put({5, 12}, 20) == bytes_of_bits("01000 01 10 01 01"));
  // All but 2 and 3 of nine, so that gaps of what is missing are written: 2 and 0.
  CHECK(put({0, 1, 4, 5, 6, 7, 8}, 9) == bytes_of_bits("00000 001 1"));
  CHECK(take(put({0, 1, 4, 5, 6, 7, 8}, 9), 7, 9) == Indices{0, 1, 4, 5, 6, 7, 8});
}

TEST_CASE("lists of indices come back, and random ones are near the least that they can be") {
  double most = 0;  // excess beyond 16 bits, as a part
  for (const uint64_t n : {1ULL, 2ULL, 7ULL, 64ULL, 1000ULL, 4096ULL, 65'536ULL, 300'000ULL}) {
    for (const double density : {1e-5, 1e-4, 0.001, 0.003, 0.01,  0.03, 0.1, 0.2,  0.3,    0.36, 0.382,
                                 0.4,  0.45, 0.5,   0.55,  0.618, 0.7,  0.9, 0.99, 0.9999, 1.0}) {
      const auto k = static_cast<uint64_t>(std::ceil(density * static_cast<double>(n)));
      double bits = 0;
      constexpr uint32_t kTrials = 4;
      for (uint32_t trial = 0; trial < kTrials; ++trial) {
        const Indices indices = random_subset(n, k, trial);
        const Bytes bytes = put(indices, n);
        REQUIRE(take(bytes, k, n) == indices);
        bits += static_cast<double>(8 * bytes.size()) / kTrials;
      }
      const double least = log2_choose(static_cast<double>(n), static_cast<double>(k));
      INFO(k << " of " << n << ": " << bits << " bits, at least " << least);
      CHECK(bits <= 1.05 * least + 16);
      if (least > 100) most = std::max(most, (bits - 16) / least - 1);
    }
  }
  INFO("largest excess " << most);
  CHECK(most < 0.045);
}

TEST_CASE("lists of indices far from random come back") {
  for (const uint64_t n : {200ULL, 5000ULL, 4'194'304ULL}) {
    const auto last = static_cast<uint32_t>(n - 1);
    Indices ends = {0, last}, run, odd, but_first, but_last;
    for (uint32_t i = 0; i < n; ++i) {
      if (i >= n / 4 && i < n / 2) run.push_back(i);
      if (i % 2 == 1) odd.push_back(i);
      if (i != 0) but_first.push_back(i);
      if (i != last) but_last.push_back(i);
    }
    for (const Indices& indices :
         {Indices{0}, Indices{last}, ends, run, odd, but_first, but_last, Indices{0, 1, last}}) {
      REQUIRE(take(put(indices, n), indices.size(), n) == indices);
    }
    // A gap too long for one word of the parameter that suits the rest: a valley with a steep side.
    Indices skewed(n / 4);
    std::iota(skewed.begin(), skewed.end(), 0U);
    skewed.push_back(last);
    REQUIRE(take(put(skewed, n), skewed.size(), n) == skewed);
  }
}

TEST_CASE("the parameter is the best of all, the smallest of equals") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const uint64_t n = 20 + 37 * seed;
    const Indices indices = random_subset(n, 1 + seed % 10, seed);
    uint64_t best = ~uint64_t{0}, at = 0;
    for (uint64_t r = 0; r < 32; ++r) {
      uint64_t bits = 0, next = 0;
      for (const uint32_t index : indices) {
        bits += ((index - next) >> r) + 1 + r;
        next = uint64_t{index} + 1;
      }
      if (bits < best) {
        best = bits;
        at = r;
      }
    }
    const Bytes bytes = put(indices, n);
    CHECK(bytes.size() == (5 + best + 7) / 8);
    CHECK((static_cast<uint64_t>(bytes[0]) & 31) == at);
  }
}

TEST_CASE("lists of indices that none writes are refused") {
  const auto refuses = [](std::string_view bits, uint64_t count, uint64_t n, const std::string& why) {
    CHECK_THROWS_WITH(take(bytes_of_bits(bits), count, n), Catch::Contains(why));
  };
  refuses("", 1, 9, "ends within");
  refuses("00000 000", 1, 9, "ends within");
  refuses("00000 001 1", 3, 9, "ends within");
  refuses("00000 001 1 0001 001", 3, 9, "bits after");
  refuses("00000 001 1 0001 000 00000000", 3, 9, "bytes more");
  refuses("00000 001 1 0000001", 3, 9, "beyond its range");
  refuses("00000 0000000001", 1, 9, "beyond its range");
  refuses("10000 01 0 1 0 01 1", 3, 9, "not the shortest");    // r = 1 is as long as r = 0
  refuses("00000 000001 0000001", 2, 20, "not the shortest");  // r = 0 where 2 is best
  refuses(std::string("11111 1") + std::string(31, '0'), 1, 1000, "not the shortest");
  CHECK_THROWS_WITH(take({}, uint64_t{1} << 30, uint64_t{1} << 31), Catch::Contains("ends within"));
}

TEST_CASE("damaged lists of indices are refused, or are other lists in their own form") {
  const uint64_t n = 3000, k = 40;
  const Bytes right = put(random_subset(n, k, 9), n);
  unsigned refused = 0;
  for (size_t bit = 0; bit < 8 * right.size(); ++bit) {
    Bytes wrong = right;
    wrong[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    try {
      const Indices indices = take(wrong, k, n);
      CHECK(std::adjacent_find(indices.begin(), indices.end(), std::greater_equal<>()) == indices.end());
      CHECK(indices.back() < n);
      CHECK(put(indices, n) == wrong);
    } catch (const Error& error) {
      CHECK(error.code() == Exit::bad_input);
      ++refused;
    }
  }
  CHECK(refused > 0);
}
