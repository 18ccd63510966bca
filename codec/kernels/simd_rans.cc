// rANS of 32 lanes for every instruction set, written once with Highway; simd.cc says how such a file works.
// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/kernels/simd_rans.cc"

#include "codec/kernels/targets.h"
// Before the next, and the next before its next.
#include <hwy/foreach_target.h>
// After it, as Highway wants.
#include <hwy/highway.h>

#include "codec/kernels/rans.h"
#include "codec/kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace gradcodec::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<uint32_t> kWords;
constexpr hn::RebindToSigned<decltype(kWords)> kInts;
constexpr hn::Rebind<uint16_t, decltype(kWords)> kShorts;  // as many as words
constexpr hn::Rebind<uint8_t, decltype(kWords)> kBytes;
constexpr hn::RebindToFloat<decltype(kInts)> kFloats;
using Words = hn::Vec<decltype(kWords)>;
using Ints = hn::Vec<decltype(kInts)>;
constexpr size_t kLanes = hn::MaxLanes(kWords);
constexpr size_t kVectors = kRansMaxLanes / kLanes;

HWY_INLINE Ints as_ints(Words words) { return hn::BitCast(kInts, words); }
HWY_INLINE Words as_words(Ints ints) { return hn::BitCast(kWords, ints); }

// The 32-bit numbers that begin index[i] times kScale bytes from the base. An instruction that gathers keeps the lanes
// of its destination that are masked off, so that it waits for whatever stood there last, though no lane is masked:
// here for the states of the round before. So its destination is zero; the compiler, which would take any register
// instead of one that makes no difference, is not shown that.
template <int kScale>
HWY_INLINE Ints gather(const int32_t* base, Ints index) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  __m512i zero = _mm512_setzero_si512();
  __mmask16 all = 0xFFFF;
  asm("" : "+k"(all));
  return Ints{_mm512_mask_i32gather_epi32(zero, all, index.raw, base, kScale)};
#elif HWY_TARGET == HWY_AVX2
  __m256i all = _mm256_set1_epi32(-1);
  asm("" : "+x"(all));
  return Ints{_mm256_mask_i32gather_epi32(_mm256_setzero_si256(), base, index.raw, all, kScale)};
#else
  return kScale == 1 ? hn::GatherOffset(kInts, base, index) : hn::GatherIndex(kInts, base, index);
#endif
}

// States stand in vectors with their lanes reversed, since words leave from the highest lane down.
//
// The quotient: for k of 12 or more it is below 2^19, and float32 has it within a quarter. The divisor is enlarged by
// 2^-21, more than the four roundings take, so that the guess is the quotient or one less; the rest tells which.
//
// `entries.at(i)` are frequency << 16 | start of symbols i to i + kLanes - 1. Raw bits, if there are any, are as a
// token of frequency 1 out of 2^count each, and nothing where the count is 0.
template <bool kRaw, class Entries>
HWY_INLINE size_t encode(const Entries& entries, const RansRaw* raw, size_t n, int precision, uint32_t* states,
                         uint16_t* words) {
  const Ints low_half = hn::Set(kInts, 0xFFFF), one = hn::Set(kInts, 1), total = hn::Set(kInts, 1 << precision);
  Ints state[kVectors];
  for (size_t j = 0; j < kVectors; ++j) {
    state[j] = hn::Reverse(kInts, as_ints(hn::LoadU(kWords, states + kRansMaxLanes - (j + 1) * kLanes)));
  }
  size_t count = 0;
  for (size_t end = n; end > 0; end -= kRansMaxLanes) {
    for (size_t j = 0; j < (kRaw ? kVectors : 0); ++j) {
      const size_t at = end - (j + 1) * kLanes;
      const Words counts = hn::Reverse(kWords, hn::PromoteTo(kWords, hn::LoadU(kBytes, raw->counts + at)));
      const Words bits = hn::Reverse(kWords, hn::PromoteTo(kWords, hn::LoadU(kShorts, raw->bits + at)));
      const Words x = as_words(state[j]);
      const Words overflow = hn::Shr(x, hn::Sub(hn::Set(kWords, 31), counts));
      const auto full = hn::Gt(as_ints(overflow), hn::Zero(kInts));
      const Ints leaving = hn::Compress(hn::And(state[j], low_half), full);
      hn::StoreU(hn::DemoteTo(kShorts, leaving), kShorts, words + count);
      count += hn::CountTrue(kInts, full);
      const Words left = as_words(hn::IfThenElse(full, hn::ShiftRight<16>(state[j]), state[j]));
      state[j] = as_ints(hn::Or(hn::Shl(left, counts), bits));
    }
    for (size_t j = 0; j < kVectors; ++j) {
      const Ints entry = hn::Reverse(kInts, entries.at(end - (j + 1) * kLanes));
      const Ints frequency = as_ints(hn::ShiftRight<16>(as_words(entry))), start = hn::And(entry, low_half);
      const Ints others = hn::Sub(total, frequency);
      const auto divisor = hn::Mul(hn::ConvertTo(kFloats, frequency), hn::Set(kFloats, 1.0f + 0x1p-21f));
      const auto reciprocal = hn::Div(hn::Set(kFloats, 1.0f), divisor);

      Ints x = state[j];
      const auto full = hn::Gt(hn::ShiftRightSame(x, 31 - precision), hn::Sub(frequency, one));
      const Ints leaving = hn::Compress(hn::And(x, low_half), full);
      hn::StoreU(hn::DemoteTo(kShorts, leaving), kShorts, words + count);
      count += hn::CountTrue(kInts, full);
      x = hn::IfThenElse(full, hn::ShiftRight<16>(x), x);
      const Ints guess = hn::ConvertTo(kInts, hn::Mul(hn::ConvertTo(kFloats, x), reciprocal));
      const Ints rest = hn::Sub(x, hn::Mul(guess, frequency));
      const auto is_less = hn::Gt(rest, hn::Sub(frequency, one));
      // (x / f << k) + x % f + start.
      const Ints next = hn::Add(hn::Add(x, start), hn::Mul(guess, others));
      state[j] = hn::Add(next, hn::IfThenElseZero(is_less, others));
    }
  }
  for (size_t j = 0; j < kVectors; ++j) {
    hn::StoreU(as_words(hn::Reverse(kInts, state[j])), kWords, states + kRansMaxLanes - (j + 1) * kLanes);
  }
  return count;
}

struct CellEntries {
  const uint16_t* cells;
  const int32_t* info;
  HWY_INLINE Ints at(size_t i) const { return gather<4>(info, hn::PromoteTo(kInts, hn::LoadU(kShorts, cells + i))); }
};

size_t rans_encode(const uint16_t* cells, size_t n, const RansTable& table, uint32_t* states, uint16_t* words) {
  const CellEntries entries = {cells, reinterpret_cast<const int32_t*>(table.info)};
  return encode<false>(entries, nullptr, n, static_cast<int>(table.precision), states, words);
}

struct InfoEntries {
  const uint32_t* infos;
  HWY_INLINE Ints at(size_t i) const { return as_ints(hn::LoadU(kWords, infos + i)); }
};

size_t rans_encode_infos(const uint32_t* infos, const RansRaw* raw, size_t n, uint32_t precision, uint32_t* states,
                         uint16_t* words) {
  const int bits = static_cast<int>(precision);
  if (raw == nullptr) return encode<false>(InfoEntries{infos}, raw, n, bits, states, words);
  return encode<true>(InfoEntries{infos}, raw, n, bits, states, words);
}

// The next words, in the lanes of the mask, in order; adds to `count` how many.
template <class Mask>
HWY_INLINE Words take_words(const uint16_t* words, Mask mask, size_t& count) {
  const Words next = hn::PromoteTo(kWords, hn::LoadU(kShorts, words + count));
  count += hn::CountTrue(kWords, mask);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return Words{_mm512_maskz_expand_epi32(mask.raw, next.raw)};
#else
  static_assert(kLanes <= 8, "a table of 2^lanes rows");
  uint8_t bits[8] = {};
  hn::StoreMaskBits(kWords, mask, bits);
  const auto lanes = hn::LoadU(kWords, kRansExpand.lane[bits[0]]);
  return hn::TableLookupLanes(next, hn::IndicesFromVec(kWords, lanes));
#endif
}

template <bool kContexts>
HWY_INLINE size_t decode(const RansSlots& slots, size_t n, const RansTable& table, uint32_t* states,
                         const uint16_t* words, size_t available, uint8_t* tokens) {
  const int precision = static_cast<int>(table.precision);
  const Words slot_mask = hn::Set(kWords, (1u << precision) - 1);
  const int32_t* info = reinterpret_cast<const int32_t*>(table.info);
  const int32_t* slot_tokens = reinterpret_cast<const int32_t*>(slots.tokens);
  Words state[kVectors];
  for (size_t j = 0; j < kVectors; ++j) state[j] = hn::LoadU(kWords, states + j * kLanes);
  size_t count = 0;
  const int bits = static_cast<int>(table.token_bits);
  for (size_t at = 0; at < n && count <= available; at += kRansMaxLanes) {
    const Words block = hn::Set(kWords, slots.blocks == nullptr ? 0 : slots.blocks[at >> slots.block_log2]);
    for (size_t j = 0; j < kVectors; ++j) {
      Words row = block;
      if (kContexts) {
        const auto context = hn::PromoteTo(kWords, hn::LoadU(kShorts, slots.contexts + at + j * kLanes));
        row = hn::Add(row, hn::ShiftRightSame(context, static_cast<int>(slots.shift)));
      }
      const Words slot = hn::And(state[j], slot_mask);
      const Words place = hn::Or(hn::ShiftLeftSame(row, precision), slot);
      const Words four = as_words(gather<1>(slot_tokens, as_ints(place)));
      const Words token = hn::And(four, hn::Set(kWords, 0xFF));
      const Words cell = hn::Or(hn::ShiftLeftSame(row, bits), token);
      const Words entry = as_words(gather<4>(info, as_ints(cell)));
      const Words scaled = hn::Mul(hn::ShiftRight<16>(entry), hn::ShiftRightSame(state[j], precision));
      const Words x = hn::Add(scaled, hn::Sub(slot, hn::And(entry, hn::Set(kWords, 0xFFFF))));
      const auto is_low = hn::RebindMask(kWords, hn::Eq(hn::ShiftRight<15>(x), hn::Zero(kWords)));
      const Words next = take_words(words, is_low, count);
      state[j] = hn::IfThenElse(is_low, hn::Or(hn::ShiftLeft<16>(x), next), x);
      hn::StoreU(hn::DemoteTo(kBytes, as_ints(token)), kBytes, tokens + at + j * kLanes);
    }
  }
  for (size_t j = 0; j < kVectors; ++j) hn::StoreU(state[j], kWords, states + j * kLanes);
  return count;
}

size_t rans_decode(const RansSlots& slots, size_t n, const RansTable& table, uint32_t* states, const uint16_t* words,
                   size_t available, uint8_t* tokens) {
  if (slots.contexts == nullptr) return decode<false>(slots, n, table, states, words, available, tokens);
  return decode<true>(slots, n, table, states, words, available, tokens);
}

// The token of a slot that is not token 0's: one lane by itself. No start in its row is 2^15 then, so that they may be
// compared as signed numbers.
constexpr hn::CappedTag<int16_t, 32> kRow;
constexpr size_t kRowLanes = hn::MaxLanes(kRow);

HWY_INLINE uint32_t token_at(const uint16_t* row, uint32_t slot) {
  const auto wanted = hn::Set(kRow, static_cast<int16_t>(slot));
  const int16_t* starts = reinterpret_cast<const int16_t*>(row);
  size_t above = 0;
  for (size_t i = 0; i < 32; i += kRowLanes) above += hn::CountTrue(kRow, hn::Gt(hn::LoadU(kRow, starts + i), wanted));
  return static_cast<uint32_t>(31 - above);
}

template <bool kRaw>
HWY_INLINE size_t decode_rows(const RansRows& rows, size_t n, uint32_t* states, const uint16_t* words, size_t available,
                              uint8_t* tokens, uint16_t* raw) {
  const int32_t* raw_counts = reinterpret_cast<const int32_t*>(rows.raw_counts);
  const Words slot_mask = hn::Set(kWords, 0x7FFF), low_half = hn::Set(kWords, 0xFFFF);
  const int32_t* starts = reinterpret_cast<const int32_t*>(rows.starts);
  Words state[kVectors];
  for (size_t j = 0; j < kVectors; ++j) state[j] = hn::LoadU(kWords, states + j * kLanes);
  size_t count = 0;
  for (size_t at = 0; at < n && count <= available; at += kRansMaxLanes) {
    for (size_t j = 0; j < kVectors; ++j) {
      const auto context = hn::PromoteTo(kWords, hn::LoadU(kShorts, rows.contexts + at + j * kLanes));
      const Words slot = hn::And(state[j], slot_mask);
      // 16 words of 32 bits a row: the first holds where tokens 0 and 1 start.
      const Words place = hn::ShiftLeft<4>(hn::ShiftRight<1>(context));
      Words frequency = hn::ShiftRight<16>(as_words(gather<4>(starts, as_ints(place)))), start = hn::Zero(kWords);
      Words token = hn::Zero(kWords);
      const auto others = hn::Gt(as_ints(slot), hn::Sub(as_ints(frequency), hn::Set(kInts, 1)));
      if (!hn::AllFalse(kInts, others)) {
        HWY_ALIGN uint32_t lane_slots[kLanes], lane_frequencies[kLanes], lane_starts[kLanes], lane_tokens[kLanes];
        uint8_t bits[8] = {};
        hn::Store(slot, kWords, lane_slots);
        hn::Store(frequency, kWords, lane_frequencies);
        hn::Store(start, kWords, lane_starts);
        hn::Store(token, kWords, lane_tokens);
        hn::StoreMaskBits(kInts, others, bits);
        for (uint32_t left = bits[0] | uint32_t{bits[1]} << 8; left != 0; left &= left - 1) {
          const auto lane = static_cast<size_t>(__builtin_ctz(left));
          const uint16_t* row = rows.starts + size_t{rows.contexts[at + j * kLanes + lane]} / 2 * 32;
          const uint32_t found = token_at(row, lane_slots[lane]);
          lane_tokens[lane] = found;
          lane_starts[lane] = row[found];
          lane_frequencies[lane] = (found == 31 ? 0x8000u : row[found + 1]) - row[found];
        }
        frequency = hn::Load(kWords, lane_frequencies);
        start = hn::Load(kWords, lane_starts);
        token = hn::Load(kWords, lane_tokens);
      }
      const Words scaled = hn::Mul(frequency, hn::ShiftRight<15>(state[j]));
      const Words x = hn::Add(scaled, hn::Sub(slot, start));
      const auto is_low = hn::RebindMask(kWords, hn::Eq(hn::ShiftRight<15>(x), hn::Zero(kWords)));
      const Words next = take_words(words, is_low, count);
      state[j] = hn::IfThenElse(is_low, hn::Or(hn::ShiftLeft<16>(x), hn::And(next, low_half)), x);
      hn::StoreU(hn::DemoteTo(kBytes, as_ints(token)), kBytes, tokens + at + j * kLanes);
    }
    for (size_t j = 0; j < (kRaw ? kVectors : 0); ++j) {
      const size_t i = at + j * kLanes;
      const auto context = hn::PromoteTo(kInts, hn::LoadU(kShorts, rows.contexts + i));
      const Words four = as_words(gather<1>(raw_counts, hn::ShiftRight<6>(context)));
      const auto token = hn::PromoteTo(kInts, hn::LoadU(kBytes, tokens + i));
      const auto escaped = hn::RebindMask(kWords, hn::Eq(token, hn::Set(kInts, 31)));
      const Words counts = hn::IfThenZeroElse(escaped, hn::And(four, hn::Set(kWords, 0xFF)));
      const Words one = hn::Set(kWords, 1), x = hn::Shr(state[j], counts);
      const Words bits = hn::And(state[j], hn::Sub(hn::Shl(one, counts), one));
      hn::StoreU(hn::DemoteTo(kShorts, as_ints(bits)), kShorts, raw + i);
      const auto is_low = hn::RebindMask(kWords, hn::Eq(hn::ShiftRight<15>(x), hn::Zero(kWords)));
      const Words next = take_words(words, is_low, count);
      state[j] = hn::IfThenElse(is_low, hn::Or(hn::ShiftLeft<16>(x), hn::And(next, low_half)), x);
    }
  }
  for (size_t j = 0; j < kVectors; ++j) hn::StoreU(state[j], kWords, states + j * kLanes);
  return count;
}

size_t rans_decode_rows(const RansRows& rows, size_t n, uint32_t* states, const uint16_t* words, size_t available,
                        uint8_t* tokens, uint16_t* raw) {
  if (rows.raw_counts == nullptr) return decode_rows<false>(rows, n, states, words, available, tokens, raw);
  return decode_rows<true>(rows, n, states, words, available, tokens, raw);
}

constexpr RansKernels kTable = {rans_encode, rans_decode, rans_encode_infos, rans_decode_rows};

}  // namespace
#endif

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define GRADCODEC_SIMD_TABLE RansKernels
#define GRADCODEC_SIMD_CHOSEN chosen_rans_kernels
#include "codec/kernels/simd_table-inl.h"
