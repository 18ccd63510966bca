// SPDX-License-Identifier: Apache-2.0
#include "codec/random.h"

#include <Random123/philox.h>

#include <catch2/catch.hpp>

#include "codec/error.h"

using namespace gradcodec;
using Key = std::array<uint32_t, 2>;
using Counter = std::array<uint32_t, 4>;

namespace {

Counter reference(Key key, Counter counter) {
  const r123::Philox4x32::ctr_type in = {{counter[0], counter[1], counter[2], counter[3]}};
  const auto out = r123::Philox4x32()(in, {{key[0], key[1]}});
  return {out[0], out[1], out[2], out[3]};
}

}  // namespace

TEST_CASE("philox gives Random123's known answers") {
  constexpr uint32_t kOnes = 0xFFFFFFFF;
  CHECK(philox({0, 0}, {0, 0, 0, 0}) == Counter{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  CHECK(philox({kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}) ==
        Counter{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
  CHECK(philox({0xA4093822, 0x299F31D0}, {0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}) ==
        Counter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("philox is Random123's for any key and counter") {
  Counter counter = {1, 2, 3, 4};
  Key key = {5, 6};
  for (int i = 0; i < 10000; ++i) {
    const Counter out = philox(key, counter);
    REQUIRE(out == reference(key, counter));
    key = {out[0] ^ key[1], out[1]};
    counter = {out[2], out[3], out[0] + out[1], counter[0]};
  }
}

TEST_CASE("a stream's words come from the documented counters") {
  const Random random({.seed = 0x0123456789ABCDEF, .worker = {}, .step = {}}, 42);
  const auto draws = random.draws(Purpose::rounding, 3, 0xBEEF);
  CHECK(draws.key == Key{0x89ABCDEF, 0x01234567});
  CHECK(draws.ordinal == 42);
  CHECK(draws.tag == 0x0301BEEF);
  for (const uint64_t index :
       {uint64_t{0}, uint64_t{5}, (uint64_t{1} << 34) - 1, uint64_t{1} << 34, (uint64_t{1} << 62) + 2}) {
    const uint64_t quad = index / 4;
    const auto out =
        reference(draws.key, {static_cast<uint32_t>(quad), static_cast<uint32_t>(quad >> 32), 42, 0x0301BEEF});
    uint32_t word = 0;
    kernels::philox_words(draws, index, 1, &word);
    CHECK(word == out[index % 4]);
  }
}

TEST_CASE("message keys") {
  const uint64_t seed = 0xFEDCBA9876543210;
  const Key seed_key = {0x76543210, 0xFEDCBA98};
  const auto derived = [&](uint32_t worker, uint64_t step) {
    const auto out =
        reference(seed_key, {static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), worker, 0x6D736731});
    return Key{out[0], out[1]};
  };
  CHECK(message_key({seed, {}, {}}) == seed_key);
  CHECK(message_key({seed, 0, {}}) == derived(0, 0));
  CHECK(message_key({seed, {}, 0}) == derived(0, 0));
  CHECK(message_key({seed, 7, {}}) == derived(7, 0));
  CHECK(message_key({seed, {}, 1ull << 40}) == derived(0, 1ull << 40));
  CHECK(message_key({seed, 0xFFFFFFFF, 9}) == derived(0xFFFFFFFF, 9));
  CHECK_THROWS_AS(message_key({seed, 1ull << 32, 9}), Error);
}

TEST_CASE("the worked numbers of spec/random.md") {
  CHECK(message_key({1, 2, 3}) == Key{0x8998771C, 0x019989B3});
  uint32_t words[5] = {};
  kernels::philox_words(Random({1, 2, 3}, 0).draws(Purpose::rounding, kFirstStage), 2, 5, words);
  const float x[] = {0.3f, -0.3f, 0.0f, 1.0f, -0.75f};
  uint16_t symbols[5] = {};
  float decoded[5] = {};
  kernels::dither_encode(x, 5, Random({1, 2, 3}, 0).draws(Purpose::rounding, kFirstStage), 2, {0.5f, 2}, symbols,
                         decoded);
  CHECK(std::vector<uint32_t>(words, words + 5) ==
        std::vector<uint32_t>{0xDBCE79F3, 0xB0849C74, 0x8A626E4C, 0x51FE1007, 0xA062287C});
  CHECK(std::vector<uint16_t>(symbols, symbols + 5) == std::vector<uint16_t>{3, 2, 2, 4, 1});
  CHECK(std::vector<float>(decoded, decoded + 5) ==
        std::vector<float>{0x1.48630ep-2f, -0x1.8424e8p-4f, -0x1.4c4dep-6f, 0x1.1700f8p+0f, -0x1.206228p-1f});
}
