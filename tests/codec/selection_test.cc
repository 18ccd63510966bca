// SPDX-License-Identifier: Apache-2.0
#include "codec/selection.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <thread>

#include "codec/support.h"

using namespace gradcodec;

namespace {

Inputs inputs_of(uint64_t chunk_len, const Loop& loop = {}) {
  return {Random({1, {}, {}}, 0), kFirstStage, chunk_len, Nonfinite::error, loop};
}

KeyReader reader_of(const std::vector<uint32_t>& keys) {
  return [&keys](Range chunk, std::span<uint32_t>) { return std::span(keys).subspan(chunk.first, chunk.count); };
}

// By sorting: the places of the k smallest (key, place).
std::vector<uint32_t> sorted_choice(const std::vector<uint32_t>& keys, uint64_t k) {
  std::vector<uint32_t> places(keys.size());
  std::iota(places.begin(), places.end(), 0U);
  std::stable_sort(places.begin(), places.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  places.resize(k);
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<uint32_t> choice(const std::vector<uint32_t>& keys, uint64_t k, const Inputs& inputs) {
  const Selection selection = select_smallest(keys.size(), k, reader_of(keys), inputs);
  std::vector<uint32_t> out, places;
  const std::vector<Range> chunks = chunks_of(keys.size(), inputs.chunk_len);
  REQUIRE(selection.kept.size() == chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto part = std::span(keys).subspan(chunks[i].first, chunks[i].count);
    REQUIRE(list_selected(part, selection.last, selection.kept[i], places));
    for (const uint32_t place : places) out.push_back(place + static_cast<uint32_t>(chunks[i].first));
  }
  return out;
}

// Every third, and then the rest, by a thread each.
void by_threads(uint64_t count, const Job& job) {
  std::vector<std::thread> threads;
  for (uint64_t part = 0; part < 3; ++part) {
    threads.emplace_back([=, &job] {
      for (uint64_t i = part; i < count; i += 3) job(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<uint32_t> words(size_t n, uint32_t seed) {
  std::vector<uint32_t> out(n);
  kernels::scalar::philox_words({{seed, 0}, 0, 0}, 0, n, out.data());
  return out;
}

}  // namespace

TEST_CASE("the smallest keys are found as by sorting, ties by place, for every chunking and number of threads") {
  std::vector<uint32_t> random = words(3001, 1), few = random, halves = random, magnitudes(random.size());
  for (uint32_t& key : few) key = (key % 5) << 29 | 7;         // ties everywhere, highest digits only
  for (uint32_t& key : halves) key = 0xABCDE000 | key % 4096;  // the lower digits alone tell
  for (size_t i = 0; i < random.size(); ++i) {
    magnitudes[i] = magnitude_key(std::ldexp(1.0F, static_cast<int>(random[i] % 250) - 125));
  }
  const std::vector<uint32_t> all = {0}, zeros(500, 0), ones(500, 0xFFFFFFFF);
  for (const auto& keys : {random, few, halves, magnitudes, all, zeros, ones}) {
    const uint64_t n = keys.size();
    for (const uint64_t k : {uint64_t{0}, uint64_t{1}, n / 100, n / 3, n / 2, n - 1, n}) {
      const std::vector<uint32_t> expected = sorted_choice(keys, k);
      for (const uint64_t chunk_len : {7, 64, 4096}) {
        INFO(k << " of " << n << " in chunks of " << chunk_len);
        REQUIRE(choice(keys, k, inputs_of(chunk_len)) == expected);
      }
      REQUIRE(choice(keys, k, inputs_of(16, by_threads)) == expected);
    }
  }
}

TEST_CASE("magnitudes have keys that fall, and their signs none") {
  const std::vector<float> rising = {0.0F, 0x1p-149F, 0x1p-126F, 0.5F, 1.0F, 1.5F, 0x1p126F};
  for (size_t i = 0; i + 1 < rising.size(); ++i) {
    CHECK(magnitude_key(rising[i]) > magnitude_key(rising[i + 1]));
    CHECK(magnitude_key(rising[i]) == magnitude_key(-rising[i]));
  }
  std::vector<uint32_t> keys(rising.size());
  magnitude_keys(rising, keys);
  for (size_t i = 0; i < rising.size(); ++i) CHECK(keys[i] == magnitude_key(rising[i]));
  // Of (4, -3, 2, 1) the two largest are the first two.
  const std::vector<uint32_t> four = {magnitude_key(4), magnitude_key(-3), magnitude_key(2), magnitude_key(1)};
  CHECK(choice(four, 2, inputs_of(3)) == std::vector<uint32_t>{0, 1});
}

TEST_CASE("kept counts that no selection has are told") {
  const std::vector<uint32_t> keys = {5, 3, 9, 5, 5, 1};
  std::vector<uint32_t> places;
  CHECK_FALSE(list_selected(keys, 5, 1, places));
  CHECK(list_selected(keys, 5, 2, places));
  CHECK(places == std::vector<uint32_t>{1, 5});
  CHECK(list_selected(keys, 5, 4, places));
  CHECK(places == std::vector<uint32_t>{0, 1, 3, 5});
  CHECK(list_selected(keys, 5, 5, places));
  CHECK_FALSE(list_selected(keys, 5, 6, places));
  CHECK(count_up_to(keys, 5) == 5);
  CHECK(count_up_to(keys, 4) == 2);
  CHECK_THROWS_AS(select_smallest(6, 7, reader_of(keys), inputs_of(4)), Error);
}
