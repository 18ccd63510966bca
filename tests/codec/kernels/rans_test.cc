// The loops of rANS: what goes in comes out, and every instruction set writes the words of the definition.
// SPDX-License-Identifier: Apache-2.0
#include "codec/kernels/rans.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "codec/guarded.h"
#include "codec/kernels/kernels.h"

using namespace gradcodec;
using namespace gradcodec::kernels;

namespace {

std::vector<uint32_t> random_words(size_t n, uint32_t what) {
  std::vector<uint32_t> words(n);
  scalar::philox_words({{what, 5}, 0, 0}, 0, n, words.data());
  return words;
}

// Rows of tokens with any frequencies, 0 among them, and symbols with contexts and blocks to go with them.
struct Case {
  uint32_t precision, bits, rows_log2;
  bool blocks, contexts;
  std::vector<uint32_t> info;
  std::vector<uint8_t> slots, block_rows, tokens;
  std::vector<uint16_t> cells, row_contexts;

  Case(uint32_t k, uint32_t token_bits, bool with_blocks, bool with_contexts, size_t n, uint32_t what)
      : precision(k), bits(token_bits), rows_log2(3), blocks(with_blocks), contexts(with_contexts) {
    const uint32_t tokens_per_row = 1u << bits, rows = 64;
    info.assign(rows << bits, 0);
    slots.assign((size_t{rows} << k) + 3, 0);
    for (uint32_t row = 0; row < rows; ++row) fill_row(row, tokens_per_row, what);
    const auto words = random_words(3 * n + 1, what + 1);
    for (size_t i = 0; i < (n >> 5) + 1; ++i) block_rows.push_back(static_cast<uint8_t>(words[i] % 32));
    for (size_t i = 0; i < n; ++i) {
      row_contexts.push_back(static_cast<uint16_t>(words[n + i] % 64));
      const uint32_t row = (blocks ? block_rows[i >> 5] : 0) + (contexts ? row_contexts[i] >> 1 : 0);
      // A slot at random: tokens as likely as their frequencies say.
      const uint8_t token = slots[(row << k) + words[2 * n + i] % (1u << k)];
      tokens.push_back(token);
      cells.push_back(static_cast<uint16_t>(row << bits | token));
    }
  }

  void fill_row(uint32_t row, uint32_t count, uint32_t what) {
    const auto words = random_words(count, what + 100 + row);
    uint32_t left = 1u << precision, start = 0;
    for (uint32_t token = 0; token < count; ++token) {
      uint32_t frequency = words[token] % 3 == 0 ? 0 : words[token] % (left / 2 + 1);
      if (row % 7 == 3) frequency = 0;  // then the last token is certain
      if (token + 1 == count) frequency = left;
      info[row << bits | token] = frequency << 16 | start;
      std::fill_n(slots.begin() + (row << precision) + start, frequency, static_cast<uint8_t>(token));
      start += frequency;
      left -= frequency;
    }
  }

  RansTable table() const { return {info.data(), precision, bits}; }
  RansSlots rows() const {
    return {slots.data(), blocks ? block_rows.data() : nullptr, 5, contexts ? row_contexts.data() : nullptr, 1};
  }
};

struct WithTarget {
  explicit WithTarget(const std::string& name) { REQUIRE(use_target(name)); }
  ~WithTarget() { use_target(""); }
};

struct Coded {
  std::vector<uint32_t> states;
  std::vector<uint16_t> words;
};

Coded encode(const Case& made, size_t n, size_t lanes) {
  Coded out{std::vector<uint32_t>(lanes, kRansLow), std::vector<uint16_t>(2 * n + kRansMaxLanes)};
  out.words.resize(
      rans_encode(made.cells.data(), nullptr, n, made.table(), lanes, out.states.data(), out.words.data()));
  return out;
}

// Rows as the coder `model` has them, of each kind: token 0 that has all, nothing, or about half; other frequencies of
// 0 among them. Four classes of 32 rows, with 0, 1, 5 and 12 raw bits.
struct RowsCase {
  std::vector<uint16_t> starts, contexts, raw;
  std::vector<uint32_t> infos;
  std::vector<uint8_t> tokens, counts;
  std::vector<uint8_t> raw_counts = {0, 1, 5, 12, 0xEE, 0xEE, 0xEE};  // three bytes that may be read

  RowsCase(size_t n, bool with_raw, uint32_t what) {
    constexpr uint32_t kRows = 128;
    for (uint32_t row = 0; row < kRows; ++row) add_row(row % 8, random_words(32, what + 100 + row));
    const auto words = random_words(2 * n, what);
    for (size_t i = 0; i < n; ++i) {
      contexts.push_back(static_cast<uint16_t>(words[i] % (2 * kRows)));
      const uint16_t* row = starts.data() + size_t{contexts[i]} / 2 * 32;
      // A slot at random; as often a token at random that has a frequency, so that rare ones are seen.
      const uint32_t slot = words[n + i] >> 17, wanted = words[i] >> 20 & 31;
      const auto end_of = [&](uint32_t token) { return token == 31 ? 1u << 15 : uint32_t{row[token + 1]}; };
      auto token = static_cast<uint32_t>(std::upper_bound(row, row + 32, slot) - row - 1);
      if ((words[n + i] & 1) != 0 && end_of(wanted) > row[wanted]) token = wanted;
      tokens.push_back(static_cast<uint8_t>(token));
      infos.push_back((end_of(token) - row[token]) << 16 | row[token]);
      counts.push_back(with_raw && token != 31 ? raw_counts[contexts[i] / 64] : uint8_t{0});
      raw.push_back(static_cast<uint16_t>(words[n + i] >> 4 & ((1u << counts[i]) - 1)));
    }
  }

  void add_row(uint32_t kind, const std::vector<uint32_t>& words) {
    uint32_t start = 0;
    for (uint32_t token = 0; token < 32; ++token) {
      starts.push_back(static_cast<uint16_t>(start));
      const uint32_t most = (1u << 15) - 1 - start;  // one is left to token 31
      uint32_t frequency = words[token] % 3 == 0 ? 0 : std::min(most, words[token] % 2000);
      if (token == 0) frequency = kind == 0 ? 1u << 15 : kind == 1 ? 0 : 1u << 14;
      start += kind == 0 && token > 0 ? 0 : frequency;
    }
  }

  RansRows rows(bool with_raw) const {
    return {starts.data(), contexts.data(), with_raw ? raw_counts.data() : nullptr};
  }
};

// Of a target, with guards around all that it writes.
Coded encode(const RowsCase& made, bool with_raw, size_t n, size_t lanes) {
  const RansRaw raw = {made.raw.data(), made.counts.data()};
  Guarded<uint32_t> states(lanes, n % 3);
  std::fill_n(states.data(), lanes, kRansLow);
  Guarded<uint16_t> words((with_raw ? 2 : 1) * n + kRansMaxLanes, n % 7);
  const size_t count =
      rans_encode_infos(made.infos.data(), with_raw ? &raw : nullptr, n, 15, lanes, states.data(), words.data());
  REQUIRE(count <= (with_raw ? 2 : 1) * n);
  REQUIRE((states.intact() && words.intact()));
  return {{states.data(), states.data() + lanes}, {words.data(), words.data() + count}};
}

struct Decoded {
  size_t used;
  std::vector<uint32_t> states;
  std::vector<uint8_t> tokens;
  std::vector<uint16_t> raw;
  bool operator==(const Decoded&) const = default;
};

// The same, of the first `available` words, the first that a decoder takes first, and 64 that mean nothing.
Decoded decode(const RowsCase& made, bool with_raw, size_t n, const Coded& coded, size_t available) {
  std::vector<uint16_t> in(coded.words.rbegin(), coded.words.rbegin() + static_cast<ptrdiff_t>(available));
  in.resize(available + 64, 0x5AA5);
  const size_t lanes = coded.states.size();
  Guarded<uint32_t> states(lanes, n % 5);
  std::copy(coded.states.begin(), coded.states.end(), states.data());
  Guarded<uint8_t> tokens(n, n % 7);
  Guarded<uint16_t> raw(with_raw ? n : 0, n % 3);
  const size_t used = rans_decode_rows(made.rows(with_raw), n, lanes, states.data(), in.data(), available,
                                       tokens.data(), with_raw ? raw.data() : nullptr);
  REQUIRE((states.intact() && tokens.intact() && raw.intact()));
  return {used,
          {states.data(), states.data() + lanes},
          {tokens.data(), tokens.data() + n},
          {raw.data(), raw.data() + (with_raw ? n : 0)}};
}

// Whether the symbols come back, every word is used, and the states end where they began.
bool comes_back(const Case& made, size_t n, size_t lanes, const Coded& coded) {
  std::vector<uint16_t> words(coded.words.rbegin(), coded.words.rend());
  words.resize(words.size() + 64, 0xFFFF);
  std::vector<uint32_t> states = coded.states;
  std::vector<uint8_t> tokens(n + 1, 0xEE);
  const size_t used = rans_decode(made.rows(), n, made.table(), nullptr, lanes, states.data(), words.data(),
                                  coded.words.size(), tokens.data(), nullptr);
  return used == coded.words.size() && tokens[n] == 0xEE &&
         std::equal(made.tokens.begin(), made.tokens.begin() + static_cast<ptrdiff_t>(n), tokens.begin()) &&
         std::all_of(states.begin(), states.end(), [](uint32_t state) { return state == kRansLow; });
}

}  // namespace

TEST_CASE("rans loops: every target writes the words of the definition and reads them") {
  for (const uint32_t k : {8, 11, 12, 15}) {
    for (const uint32_t bits : {1, 3, 8}) {
      for (const int which : {0, 1, 2, 3}) {
        const Case made(k, bits, which & 1, which & 2, 3000, k * 100 + bits * 10 + static_cast<uint32_t>(which));
        for (const size_t lanes : {1, 8, 32}) {
          for (const size_t n : {0, 1, 7, 31, 32, 33, 64, 95, 3000}) {
            INFO("k " << k << ", token bits " << bits << ", case " << which << ", lanes " << lanes << ", n " << n);
            Coded expected;
            {
              const WithTarget with("scalar");
              expected = encode(made, n, lanes);
              REQUIRE(comes_back(made, n, lanes, expected));
            }
            for (const auto& target : available_targets()) {
              const WithTarget with(target);
              INFO(target);
              const Coded got = encode(made, n, lanes);
              REQUIRE((got.words == expected.words && got.states == expected.states));
              REQUIRE(comes_back(made, n, lanes, expected));
            }
          }
        }
      }
    }
  }
}

// The quotients of the vectorised loops are guesses that are put right: here for every frequency, at the states where a
// guess is most easily wrong, just below and at the multiples.
TEST_CASE("rans loops: quotients are exact at the edges of every frequency") {
  for (const uint32_t k : {12, 15}) {
    for (uint32_t frequency = 1; frequency <= 1u << k; frequency += frequency < 600 ? 1 : 97) {
      const std::vector<uint32_t> info = {frequency << 16};
      const std::vector<uint16_t> cells(kRansMaxLanes, 0);
      std::vector<uint32_t> states(kRansMaxLanes);
      const uint64_t most = uint64_t{frequency} << (31 - k);  // states from here up give a word first
      for (size_t lane = 0; lane < kRansMaxLanes; ++lane) {
        const uint64_t multiple = most - lane / 2 * frequency;
        const uint64_t state = std::clamp<uint64_t>(multiple - lane % 2, kRansLow, kRansHigh - 1);
        states[lane] = static_cast<uint32_t>(state);
      }
      std::vector<uint16_t> expected_words(2 * kRansMaxLanes), words(2 * kRansMaxLanes);
      std::vector<uint32_t> expected = states;
      scalar::rans_encode(cells.data(), nullptr, kRansMaxLanes, {info.data(), k, 1}, kRansMaxLanes, expected.data(),
                          expected_words.data());
      for (const auto& target : available_targets()) {
        const WithTarget with(target);
        std::vector<uint32_t> got = states;
        const size_t count = rans_encode(cells.data(), nullptr, kRansMaxLanes, {info.data(), k, 1}, kRansMaxLanes,
                                         got.data(), words.data());
        INFO(target << ", k " << k << ", frequency " << frequency);
        REQUIRE(got == expected);
        REQUIRE(std::equal(words.begin(), words.begin() + static_cast<ptrdiff_t>(count), expected_words.begin()));
      }
    }
  }
}

TEST_CASE("rans loops: raw bits and blocks of every length come back") {
  constexpr size_t kLen = 1000;
  for (const size_t lanes : {1, 8, 32}) {
    for (uint32_t block_log2 = 5; block_log2 <= 8; ++block_log2) {
      Case made(12, 3, true, true, kLen, 50 + block_log2);
      // The case's blocks are of 2^5: longer ones have the rows of their first.
      const auto words = random_words(kLen, 60);
      std::vector<uint16_t> raw(kLen);
      std::vector<uint8_t> counts(kLen), of_token = {0, 12, 3, 0, 1, 7, 0, 5};
      for (size_t i = 0; i < kLen; ++i) {
        const uint32_t row = made.block_rows[i >> block_log2] + (made.row_contexts[i] >> 1);
        made.tokens[i] = made.slots[(row << 12) + words[i] % 4096];
        made.cells[i] = static_cast<uint16_t>(row << 3 | made.tokens[i]);
        counts[i] = of_token[made.tokens[i]];
        raw[i] = static_cast<uint16_t>(words[i] >> 16 & ((1u << counts[i]) - 1));
      }
      const RansRaw beside = {raw.data(), counts.data()};
      Coded coded{std::vector<uint32_t>(lanes, kRansLow), std::vector<uint16_t>(2 * kLen + kRansMaxLanes)};
      coded.words.resize(
          rans_encode(made.cells.data(), &beside, kLen, made.table(), lanes, coded.states.data(), coded.words.data()));
      std::vector<uint16_t> in(coded.words.rbegin(), coded.words.rend()), got_raw(kLen);
      in.resize(in.size() + 64);
      std::vector<uint8_t> tokens(kLen);
      RansSlots slots = made.rows();
      slots.block_log2 = block_log2;
      const size_t used = rans_decode(slots, kLen, made.table(), of_token.data(), lanes, coded.states.data(), in.data(),
                                      coded.words.size(), tokens.data(), got_raw.data());
      CHECK(used == coded.words.size());
      CHECK(tokens == made.tokens);
      CHECK(got_raw == raw);
    }
  }
}

TEST_CASE("rans loops: a chain of tokens comes back") {
  constexpr size_t kLen = 500;
  for (const uint32_t shift : {0, 1, 31}) {
    const Case made(12, 3, false, false, 1, 90);
    const auto words = random_words(kLen, 91);
    std::vector<uint8_t> tokens(kLen), got(kLen);
    std::vector<uint16_t> cells(kLen), out(kLen + kRansMaxLanes);
    uint32_t before = 0;
    for (size_t i = 0; i < kLen; ++i) {
      const uint32_t row = before >> shift;
      before = tokens[i] = made.slots[(row << 12) + words[i] % 4096];
      cells[i] = static_cast<uint16_t>(row << 3 | before);
    }
    uint32_t state = kRansLow;
    const size_t count = rans_encode(cells.data(), nullptr, kLen, made.table(), 1, &state, out.data());
    std::reverse(out.begin(), out.begin() + static_cast<ptrdiff_t>(count));
    const size_t used =
        rans_decode_chain(made.slots.data(), shift, kLen, made.table(), &state, out.data(), count, got.data());
    CHECK(used == count);
    CHECK(state == kRansLow);
    CHECK(got == tokens);
  }
}

TEST_CASE("rans loops: a stream that is cut off is left before its end is passed by far") {
  const Case made(12, 8, true, true, 3000, 77);
  const Coded coded = encode(made, 3000, 32);
  std::vector<uint16_t> words(coded.words.rbegin(), coded.words.rend());
  for (const auto& target : available_targets()) {
    const WithTarget with(target);
    for (const size_t available : {size_t{0}, size_t{1}, size_t{100}, coded.words.size() - 1}) {
      std::vector<uint16_t> cut(words.begin(), words.begin() + static_cast<ptrdiff_t>(available));
      cut.resize(available + 64);
      std::vector<uint32_t> states = coded.states;
      std::vector<uint8_t> tokens(3000);
      const size_t used = rans_decode(made.rows(), 3000, made.table(), nullptr, 32, states.data(), cut.data(),
                                      available, tokens.data(), nullptr);
      INFO(target << ", " << available << " words");
      CHECK(used > available);
      CHECK(used <= available + 64);
    }
  }
}

TEST_CASE("rows of the coder model: every target writes the words of the definition, and reads them") {
  for (const bool with_raw : {false, true}) {
    for (const size_t n : {0, 1, 7, 8, 31, 32, 33, 64, 95, 3000}) {
      const RowsCase made(n, with_raw, static_cast<uint32_t>(n) + 7);
      std::vector<uint16_t> raw = made.raw;
      if (!with_raw) raw.clear();
      for (const size_t lanes : {1, 8, 32}) {
        INFO("raw bits " << with_raw << ", lanes " << lanes << ", n " << n);
        Coded expected;
        {
          const WithTarget with("scalar");
          expected = encode(made, with_raw, n, lanes);
        }
        for (const auto& target : available_targets()) {
          const WithTarget with(target);
          INFO(target);
          const Coded got = encode(made, with_raw, n, lanes);
          REQUIRE((got.words == expected.words && got.states == expected.states));
          const std::vector<uint32_t> end(lanes, kRansLow);
          REQUIRE(decode(made, with_raw, n, got, got.words.size()) == Decoded{got.words.size(), end, made.tokens, raw});
        }
      }
    }
  }
}

TEST_CASE("rows of the coder model: a stream that is cut off is left in the same place by every target") {
  constexpr size_t kLen = 3001;  // a round of one symbol at its end
  for (const bool with_raw : {false, true}) {
    const RowsCase made(kLen, with_raw, 78);
    for (const size_t lanes : {1, 8, 32}) {
      const Coded coded = encode(made, with_raw, kLen, lanes);
      for (const size_t available :
           {size_t{0}, size_t{1}, size_t{100}, coded.words.size() / 2, coded.words.size() - 1}) {
        INFO("raw bits " << with_raw << ", lanes " << lanes << ", " << available << " words");
        Decoded expected;
        {
          const WithTarget with("scalar");
          expected = decode(made, with_raw, kLen, coded, available);
        }
        CHECK(expected.used > available);
        CHECK(expected.used <= available + 64);
        for (const auto& target : available_targets()) {
          const WithTarget with(target);
          INFO(target);
          CHECK(decode(made, with_raw, kLen, coded, available) == expected);
        }
      }
    }
  }
}

TEST_CASE("contexts of a dither: every target gives those of the definition") {
  const Draws draws = {{1, 2}, 3, 0x10000};
  for (const auto& target : available_targets()) {
    const WithTarget with(target);
    for (const size_t n : {0, 1, 5, 31, 64, 1001, 70001}) {
      for (const uint64_t first : {uint64_t{0}, uint64_t{3}, (uint64_t{1} << 34) - 30}) {
        std::vector<uint16_t> expected(n), got(n);
        scalar::dither_contexts(draws, first, n, expected.data());
        dither_contexts(draws, first, n, got.data());
        INFO(target << ", " << n << " from " << first);
        REQUIRE(got == expected);
      }
    }
  }
}
