// The definition of the rANS loops, and the choice between it and the vectorised ones.
// SPDX-License-Identifier: Apache-2.0
#include "codec/kernels/rans.h"

#include <algorithm>

#include "codec/kernels/simd.h"

namespace gradcodec::kernels {
namespace {

// Makes room in a state for a symbol of `frequency` out of 2^precision.
inline void flush(uint32_t& state, uint32_t frequency, uint32_t precision, uint16_t*& words) {
  if (state >> (31 - precision) >= frequency) {
    *words++ = static_cast<uint16_t>(state);
    state >>= 16;
  }
}

inline void refill(uint32_t& state, const uint16_t*& words) {
  if (state < kRansLow) state = state << 16 | *words++;
}

inline void put_token(uint32_t& state, uint32_t info, uint32_t precision, uint16_t*& words) {
  const uint32_t frequency = info >> 16;
  flush(state, frequency, precision, words);
  state = (state / frequency << precision) + state % frequency + (info & 0xFFFF);
}

inline void put_raw(uint32_t& state, uint32_t bits, uint32_t count, uint16_t*& words) {
  if (count == 0) return;
  flush(state, 1, count, words);
  state = state << count | bits;
}

// info_of(i): frequency << 16 | start, of symbol i.
template <typename InfoOf>
size_t encode(const InfoOf& info_of, const RansRaw* raw, size_t n, uint32_t precision, size_t lanes, uint32_t* states,
              uint16_t* words) {
  uint16_t* out = words;
  for (size_t end = n; end > 0;) {
    const size_t first = (end - 1) / lanes * lanes;
    if (raw != nullptr) {
      for (size_t i = end; i-- > first;) put_raw(states[i - first], raw->bits[i], raw->counts[i], out);
    }
    for (size_t i = end; i-- > first;) put_token(states[i - first], info_of(i), precision, out);
    end = first;
  }
  return static_cast<size_t>(out - words);
}

inline uint8_t take_token(uint32_t& state, uint32_t row, const uint8_t* slots, const RansTable& table,
                          const uint16_t*& words) {
  const uint32_t slot = state & ((1u << table.precision) - 1);
  const uint8_t token = slots[row << table.precision | slot];
  const uint32_t info = table.info[row << table.token_bits | token];
  state = (info >> 16) * (state >> table.precision) + slot - (info & 0xFFFF);
  refill(state, words);
  return token;
}

constexpr uint32_t kRowTokens = 32, kRowPrecision = 15;

inline uint8_t take_row_token(uint32_t& state, const uint16_t* row, const uint16_t*& words) {
  const uint32_t slot = state & ((1u << kRowPrecision) - 1);
  uint32_t token = 0;
  for (uint32_t t = 1; t < kRowTokens; ++t) token += row[t] <= slot ? 1 : 0;
  const uint32_t end = token + 1 < kRowTokens ? row[token + 1] : 1u << kRowPrecision;
  state = (end - row[token]) * (state >> kRowPrecision) + slot - row[token];
  refill(state, words);
  return static_cast<uint8_t>(token);
}

inline uint32_t row_of(const RansSlots& slots, size_t i) {
  const uint32_t block = slots.blocks == nullptr ? 0 : slots.blocks[i >> slots.block_log2];
  return block + (slots.contexts == nullptr ? 0 : uint32_t{slots.contexts[i]} >> slots.shift);
}

inline uint16_t take_raw(uint32_t& state, uint32_t count, const uint16_t*& words) {
  const auto bits = static_cast<uint16_t>(state & ((1u << count) - 1));
  state >>= count;
  refill(state, words);
  return bits;
}

}  // namespace

namespace scalar {

size_t rans_encode(const uint16_t* cells, const RansRaw* raw, size_t n, const RansTable& table, size_t lanes,
                   uint32_t* states, uint16_t* words) {
  return encode([&](size_t i) { return table.info[cells[i]]; }, raw, n, table.precision, lanes, states, words);
}

size_t rans_encode_infos(const uint32_t* infos, const RansRaw* raw, size_t n, uint32_t precision, size_t lanes,
                         uint32_t* states, uint16_t* words) {
  return encode([&](size_t i) { return infos[i]; }, raw, n, precision, lanes, states, words);
}

size_t rans_decode(const RansSlots& slots, size_t n, const RansTable& table, const uint8_t* counts, size_t lanes,
                   uint32_t* states, const uint16_t* words, size_t available, uint8_t* tokens, uint16_t* raw) {
  const uint16_t* in = words;
  for (size_t first = 0; first < n; first += lanes) {
    const size_t end = std::min(n, first + lanes);
    for (size_t i = first; i < end; ++i) {
      tokens[i] = take_token(states[i - first], row_of(slots, i), slots.tokens, table, in);
    }
    if (counts != nullptr) {
      for (size_t i = first; i < end; ++i) raw[i] = take_raw(states[i - first], counts[tokens[i]], in);
    }
    if (static_cast<size_t>(in - words) > available) break;
  }
  return static_cast<size_t>(in - words);
}

size_t rans_decode_rows(const RansRows& rows, size_t n, size_t lanes, uint32_t* states, const uint16_t* words,
                        size_t available, uint8_t* tokens, uint16_t* raw) {
  const uint16_t* in = words;
  for (size_t first = 0; first < n; first += lanes) {
    const size_t end = std::min(n, first + lanes);
    for (size_t i = first; i < end; ++i) {
      tokens[i] = take_row_token(states[i - first], rows.starts + size_t{rows.contexts[i]} / 2 * kRowTokens, in);
    }
    if (rows.raw_counts != nullptr) {
      for (size_t i = first; i < end; ++i) {
        const uint32_t count = tokens[i] == kRowTokens - 1 ? 0 : rows.raw_counts[rows.contexts[i] / 64];
        raw[i] = take_raw(states[i - first], count, in);
      }
    }
    if (static_cast<size_t>(in - words) > available) break;
  }
  return static_cast<size_t>(in - words);
}

}  // namespace scalar

// The vectorised loops take whole rounds of 32 lanes, these two without raw bits; to encode, k of 12 or more.
size_t rans_encode(const uint16_t* cells, const RansRaw* raw, size_t n, const RansTable& table, size_t lanes,
                   uint32_t* states, uint16_t* words) {
  const bool fits = raw == nullptr && lanes == kRansMaxLanes && table.precision >= 12;
  const RansKernels* simd = fits ? rans_kernels() : nullptr;
  if (simd == nullptr) return scalar::rans_encode(cells, raw, n, table, lanes, states, words);
  const size_t whole = n - n % lanes;
  const size_t count = scalar::rans_encode(cells + whole, nullptr, n - whole, table, lanes, states, words);
  return count + simd->encode(cells, whole, table, states, words + count);
}

size_t rans_decode(const RansSlots& slots, size_t n, const RansTable& table, const uint8_t* counts, size_t lanes,
                   uint32_t* states, const uint16_t* words, size_t available, uint8_t* tokens, uint16_t* raw) {
  const RansKernels* simd = counts == nullptr && lanes == kRansMaxLanes ? rans_kernels() : nullptr;
  if (simd == nullptr)
    return scalar::rans_decode(slots, n, table, counts, lanes, states, words, available, tokens, raw);
  const size_t whole = n - n % lanes;
  const size_t count = simd->decode(slots, whole, table, states, words, available, tokens);
  if (count > available) return count;
  RansSlots rest = slots;
  if (rest.contexts != nullptr) rest.contexts += whole;
  if (rest.blocks != nullptr) rest.blocks += whole >> slots.block_log2;  // a short round is in one block
  return count + scalar::rans_decode(rest, n - whole, table, nullptr, lanes, states, words + count, available - count,
                                     tokens + whole, nullptr);
}

size_t rans_encode_infos(const uint32_t* infos, const RansRaw* raw, size_t n, uint32_t precision, size_t lanes,
                         uint32_t* states, uint16_t* words) {
  const bool fits = lanes == kRansMaxLanes && precision >= 12;
  const RansKernels* simd = fits ? rans_kernels() : nullptr;
  if (simd == nullptr) return scalar::rans_encode_infos(infos, raw, n, precision, lanes, states, words);
  const size_t whole = n - n % lanes;
  RansRaw rest = {};
  if (raw != nullptr) rest = {raw->bits + whole, raw->counts + whole};
  const size_t count = scalar::rans_encode_infos(infos + whole, raw == nullptr ? nullptr : &rest, n - whole, precision,
                                                 lanes, states, words);
  return count + simd->encode_infos(infos, raw, whole, precision, states, words + count);
}

size_t rans_decode_rows(const RansRows& rows, size_t n, size_t lanes, uint32_t* states, const uint16_t* words,
                        size_t available, uint8_t* tokens, uint16_t* raw) {
  const RansKernels* simd = lanes == kRansMaxLanes ? rans_kernels() : nullptr;
  if (simd != nullptr) {
    const size_t whole = n - n % lanes;
    const size_t count = simd->decode_rows(rows, whole, states, words, available, tokens, raw);
    if (count > available) return count;
    RansRows rest = rows;
    rest.contexts += whole;
    return count + scalar::rans_decode_rows(rest, n - whole, lanes, states, words + count, available - count,
                                            tokens + whole, raw == nullptr ? nullptr : raw + whole);
  }
  return scalar::rans_decode_rows(rows, n, lanes, states, words, available, tokens, raw);
}

size_t rans_decode_chain(const uint8_t* slots, uint32_t shift, size_t n, const RansTable& table, uint32_t* state,
                         const uint16_t* words, size_t available, uint8_t* tokens) {
  const uint16_t* in = words;
  uint32_t before = 0, x = *state;
  for (size_t i = 0; i < n && static_cast<size_t>(in - words) <= available; ++i) {
    before = tokens[i] = take_token(x, before >> shift, slots, table, in);
  }
  *state = x;
  return static_cast<size_t>(in - words);
}

}  // namespace gradcodec::kernels
