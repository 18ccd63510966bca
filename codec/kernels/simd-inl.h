// What simd.cc, simd_levels.cc, simd_hadamard.cc and simd_nested.cc share: vector types, Philox by blocks, and the loop
// over the blocks of a stretch. Included once for each instruction set, which is why there is no #pragma once.
//
// SPDX-License-Identifier: Apache-2.0
#if defined(GRADCODEC_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADCODEC_SIMD_INL_H
#undef GRADCODEC_SIMD_INL_H
#else
#define GRADCODEC_SIMD_INL_H
#endif

#include <hwy/highway.h>

#include "codec/kernels/philox.h"
#include "codec/kernels/simd.h"

#ifdef __FAST_MATH__
#error "results are defined by IEEE arithmetic: build without -ffast-math"
#endif

HWY_BEFORE_NAMESPACE();
namespace gradcodec::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // Highway's one-lane fallback has no shuffles; our scalar kernels are better anyway

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using DoubleTag = hn::Repartition<double, FloatTag>;
constexpr FloatTag kFloats;
constexpr DoubleTag kDoubles;
constexpr hn::RebindToSigned<FloatTag> kInts;
constexpr hn::RebindToUnsigned<FloatTag> kWords;
constexpr hn::Repartition<uint64_t, FloatTag> kQuads;
constexpr hn::Rebind<float, DoubleTag> kHalfFloats;
constexpr hn::Rebind<uint16_t, FloatTag> kSymbols;          // as many as floats
constexpr hn::Repartition<uint16_t, FloatTag> kAllSymbols;  // of a block
using Floats = hn::Vec<FloatTag>;
using Doubles = hn::Vec<DoubleTag>;
using Words = hn::Vec<decltype(kWords)>;
using Quads = hn::Vec<decltype(kQuads)>;
constexpr size_t kLanes = hn::MaxLanes(FloatTag());
constexpr size_t kBlock = 2 * kLanes;  // words that one evaluation of Philox gives

// Asks for the memory that is read (or written) 2 KiB from here on. The machine's own prefetching is late in loops with
// this much work: encoding from memory is a third faster so. Any address may be asked for.
template <int kWrite = 0>
HWY_INLINE void fetch_ahead(const void* here) {
  // Not by pointer arithmetic, which may not leave the array. NOLINTNEXTLINE(performance-no-int-to-ptr)
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(here) + 2048), kWrite);
}

// Philox for the counters of one block. A 64-bit lane holds a counter: the lower half of p1 (p0) is word 1 (3) of the
// state, its upper half goes into word 0 (2). A 32x32->64 multiplication ignores the upper halves of its operands, so
// that they may hold anything, and words that are neighbours in the output end in one lane.
class Philox {
 public:
  // `high` is counter word 1, the same for all. What follows from it and the constants is the same in every block: the
  // first round's p1 and the second's p0.
  HWY_INLINE Philox(PlainDraws draws, uint32_t high) {
    for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
      key0_[round] = draws.key0 + round * kPhiloxBump0;
      key1_[round] = draws.key1 + round * kPhiloxBump1;
    }
    const uint64_t p1 = uint64_t{kPhiloxMultiplier1} * draws.ordinal;
    const uint64_t p0 = uint64_t{kPhiloxMultiplier0} * (static_cast<uint32_t>(p1 >> 32) ^ high ^ key0_[0]);
    first_c2_ = draws.tag ^ key1_[0];
    second_c0_ = static_cast<uint32_t>(p1) ^ key0_[1];
    second_c2_ = static_cast<uint32_t>(p0 >> 32) ^ key1_[1];
    second_c3_ = static_cast<uint32_t>(p0);
    // Lane 2 i counts i and lane 2 i + 1 counts i + half the lanes, so that interleaving the even and the odd lanes of
    // word pairs, which is what each 128-bit block can do alone, gives all words in order.
    HWY_ALIGN uint64_t offsets[kLanes / 2];
    for (size_t lane = 0; lane < kLanes / 2; ++lane) offsets[lane] = lane / 2 + lane % 2 * (kLanes / 4);
    offsets_ = hn::Load(kQuads, offsets);
  }

  // Words first .. first + kBlock - 1 of the stream, in order. `first` is a multiple of 4.
  HWY_INLINE void block(uint64_t first, Words& low, Words& high) const {
    const Quads p0 = multiply(hn::Add(hn::Set(kQuads, first / 4), offsets_), kPhiloxMultiplier0);
    const Quads p1 = multiply(hn::Xor(swap_halves(p0), hn::Set(kQuads, first_c2_)), kPhiloxMultiplier1);
    State state = {hn::Xor(swap_halves(p1), hn::Set(kQuads, second_c0_)), p1, hn::Xor(p0, hn::Set(kQuads, second_c2_)),
                   hn::Set(kQuads, second_c3_)};
    rounds<2>(state);
    low = hn::BitCast(kWords, hn::InterleaveLower(kQuads, state.c0, state.c2));
    high = hn::BitCast(kWords, hn::InterleaveUpper(kQuads, state.c0, state.c2));
  }

 private:
  struct State {
    Quads c0, c1, c2, c3;
  };

  // Rounds kRound to the last, unrolled. After the last, c0 holds words 0 and 1 and c2 holds words 2 and 3.
  template <int kRound>
  HWY_INLINE void rounds(State& state) const {
    const Quads p0 = multiply(state.c0, kPhiloxMultiplier0), p1 = multiply(state.c2, kPhiloxMultiplier1);
    if constexpr (kRound == kPhiloxRounds - 1) {
      state.c1 = hn::And(state.c1, hn::Set(kQuads, 0xFFFFFFFF));
      state.c3 = hn::And(state.c3, hn::Set(kQuads, 0xFFFFFFFF));
    }
    state = {hn::Xor3(swap_halves(p1), state.c1, hn::Set(kQuads, key0_[kRound])), p1,
             hn::Xor3(swap_halves(p0), state.c3, hn::Set(kQuads, key1_[kRound])), p0};
    if constexpr (kRound < kPhiloxRounds - 1) rounds<kRound + 1>(state);
  }

  static HWY_INLINE Quads multiply(Quads a, uint32_t b) {
    return hn::MulEven(hn::BitCast(kWords, a), hn::BitCast(kWords, hn::Set(kQuads, b)));
  }
  static HWY_INLINE Quads swap_halves(Quads a) { return hn::BitCast(kQuads, hn::Shuffle2301(hn::BitCast(kWords, a))); }

  uint32_t key0_[kPhiloxRounds], key1_[kPhiloxRounds];
  uint32_t first_c2_, second_c0_, second_c2_, second_c3_;
  Quads offsets_;
};

// Gives `body` the elements of a stretch block by block: whole(at, low, high) for blocks that lie inside it, and
// part(at, lead, len, low, high) at the ends, where elements at .. at + len - 1 take words lead .. of the block. Starts
// anew where counter word 1 changes, every 2^34 words.
template <typename Body>
HWY_INLINE void for_blocks(PlainDraws draws, uint64_t first, size_t n, const Body& body) {
  constexpr uint64_t kRun = uint64_t{1} << 34;
  Words low, high;
  for (size_t at = 0; at < n;) {
    const Philox philox(draws, static_cast<uint32_t>((first + at) / kRun));
    const uint64_t room = kRun - (first + at) % kRun;
    const size_t end = n - at < room ? n : at + static_cast<size_t>(room);
    while (at < end) {
      const size_t lead = (first + at) % 4, len = HWY_MIN(end - at, kBlock - lead);
      philox.block(first + at - lead, low, high);
      if (HWY_LIKELY(len == kBlock)) {
        body.whole(at, low, high);
      } else {
        body.part(at, lead, len, low, high);
      }
      at += len;
    }
  }
}

// u of 32-bit words. Both subtractions are exact.
HWY_INLINE Floats draw_u(Words words) {
  const Words one_to_two = hn::Or(hn::ShiftRight<9>(words), hn::Set(kWords, 0x3F800000));
  const Floats v = hn::Sub(hn::BitCast(kFloats, one_to_two), hn::Set(kFloats, 1.0f - 0x1p-24f));
  return hn::Sub(v, hn::Set(kFloats, 0.5f));
}

#endif

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
