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
size_t rans_encode(const uint16_t* cells, size_t n, const RansTable& table, uint32_t* states, uint16_t* words) {
  const int precision = static_cast<int>(table.precision);
  const Ints low_half = hn::Set(kInts, 0xFFFF), one = hn::Set(kInts, 1), total = hn::Set(kInts, 1 << precision);
  const int32_t* info = reinterpret_cast<const int32_t*>(table.info);
  Ints state[kVectors];
  for (size_t j = 0; j < kVectors; ++j) {
    state[j] = hn::Reverse(kInts, as_ints(hn::LoadU(kWords, states + kRansMaxLanes - (j + 1) * kLanes)));
  }
  size_t count = 0;
  for (size_t end = n; end > 0; end -= kRansMaxLanes) {
    for (size_t j = 0; j < kVectors; ++j) {
      const auto cell = hn::PromoteTo(kInts, hn::LoadU(kShorts, cells + end - (j + 1) * kLanes));
      const Ints entry = hn::Reverse(kInts, gather<4>(info, cell));
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

constexpr RansKernels kTable = {rans_encode, rans_decode};

}  // namespace
#endif

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define GRADCODEC_SIMD_TABLE RansKernels
#define GRADCODEC_SIMD_CHOSEN chosen_rans_kernels
#include "codec/kernels/simd_table-inl.h"
