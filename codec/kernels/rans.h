// The loops of interleaved rANS (Duda, "Asymmetric numeral systems", arXiv 1311.2540; interleaving: Giesen,
// "Interleaved entropy coders", arXiv 1402.3392): 31-bit states in [2^15, 2^31), renormalised by 16-bit words.
// spec/coders/rans.md has the order of the words. `scalar` is the definition; the functions outside it give the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gradcodec::kernels {

inline constexpr size_t kRansMaxLanes = 32;
inline constexpr uint32_t kRansLow = 1u << 15;   // smallest state, and the one that coding starts from
inline constexpr uint32_t kRansHigh = 1u << 31;  // states are below

// Frequencies out of 2^precision, in rows of tokens.
struct RansTable {
  const uint32_t* info;  // [row << token_bits | token]: frequency << 16 | sum of the frequencies before it in the row
  uint32_t precision;    // k, at most 15
  uint32_t token_bits;   // at most 8
};

// What a decoder needs beside: which token a slot belongs to.
struct RansSlots {
  const uint8_t* tokens;  // [row << k | slot]; three bytes more may be read behind the last
  // The row of symbol i is blocks[i >> block_log2] + (contexts[i] >> shift); what is null counts as 0.
  const uint8_t* blocks;
  uint32_t block_log2;  // at least 5
  const uint16_t* contexts;
  uint32_t shift;
};

// Low bits of symbols that stand beside their tokens as they are: `count` bits, at most 12, of symbol i.
struct RansRaw {
  const uint16_t* bits;
  const uint8_t* counts;
};

// Rows of 32 tokens whose frequencies sum to 2^15, too many rows to have a table of slots: the coder `model`.
struct RansRows {
  const uint16_t* starts;     // [row * 32 + token]: sum of the frequencies before it in the row, at most 2^15; token
                              // 31 has a frequency, unless token 0 has all
  const uint16_t* contexts;   // of each symbol: its row * 2, and a bit that is not looked at
  const uint8_t* raw_counts;  // bits beside a token, of row / 32; token 31 has none; three bytes more may be read.
                              // Null: no token has any
};

namespace scalar {

// Puts n symbols on states[0 .. lanes - 1], the last symbol first: symbol i belongs to lane i % lanes. cells[i] is the
// place of its token in table.info. Each round of `lanes` symbols (the last may be short) puts its raw bits first, if
// there are any, then its tokens; lanes go down. Appends the words that overflow, in this order, which is the reverse
// of a decoder's: at most one a symbol, two with raw bits. Returns how many.
size_t rans_encode(const uint16_t* cells, const RansRaw* raw, size_t n, const RansTable& table, size_t lanes,
                   uint32_t* states, uint16_t* words);

// The same where infos[i] is what table.info has of symbol i.
size_t rans_encode_infos(const uint32_t* infos, const RansRaw* raw, size_t n, uint32_t precision, size_t lanes,
                         uint32_t* states, uint16_t* words);

// The inverse, first symbol first: tokens[i] and, if `counts` (of bits, by token) is not null, raw[i]. Takes words from
// `words`, of which there are `available` and, behind them, 64 more that may be read. Stops early if it has taken more
// than there are. Returns how many it took.
size_t rans_decode(const RansSlots& slots, size_t n, const RansTable& table, const uint8_t* counts, size_t lanes,
                   uint32_t* states, const uint16_t* words, size_t available, uint8_t* tokens, uint16_t* raw);

// As rans_decode, for rows that have no slots: a token is the last that starts at the slot or before. raw[i] is of
// every symbol, 0 where there are no bits; not touched if rows.raw_counts is null.
size_t rans_decode_rows(const RansRows& rows, size_t n, size_t lanes, uint32_t* states, const uint16_t* words,
                        size_t available, uint8_t* tokens, uint16_t* raw);

}  // namespace scalar

size_t rans_encode(const uint16_t* cells, const RansRaw* raw, size_t n, const RansTable& table, size_t lanes,
                   uint32_t* states, uint16_t* words);
size_t rans_decode(const RansSlots& slots, size_t n, const RansTable& table, const uint8_t* counts, size_t lanes,
                   uint32_t* states, const uint16_t* words, size_t available, uint8_t* tokens, uint16_t* raw);
size_t rans_encode_infos(const uint32_t* infos, const RansRaw* raw, size_t n, uint32_t precision, size_t lanes,
                         uint32_t* states, uint16_t* words);
size_t rans_decode_rows(const RansRows& rows, size_t n, size_t lanes, uint32_t* states, const uint16_t* words,
                        size_t available, uint8_t* tokens, uint16_t* raw);

// The inverse of rans_encode with one lane where the row of each symbol is the token before it, shifted right; 0 for
// the first. As rans_decode otherwise, without raw bits.
size_t rans_decode_chain(const uint8_t* slots, uint32_t shift, size_t n, const RansTable& table, uint32_t* state,
                         const uint16_t* words, size_t available, uint8_t* tokens);

}  // namespace gradcodec::kernels
