// The decoder of nested dither for every instruction set: compiled, and bound to the bits of nested.cc, as simd.cc
// says.
//
// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/kernels/simd_nested.cc"

#include "codec/kernels/targets.h"
// Before the next, and the next before its next.
#include <hwy/foreach_target.h>
// After it, as Highway wants.
#include <hwy/highway.h>

#include "codec/kernels/simd-inl.h"
#include "codec/kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace gradcodec::kernels::HWY_NAMESPACE {

// The emulated target limits what lies beyond float32 instead of rounding it to an infinity, and is no faster.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

namespace {

constexpr hn::Rebind<int32_t, DoubleTag> kHalfInts;

struct HalfFloats {
  HWY_INLINE Doubles operator()(Floats f) const { return hn::PromoteTo(kDoubles, hn::LowerHalf(kHalfFloats, f)); }
};
struct UpperHalfFloats {
  HWY_INLINE Doubles operator()(Floats f) const { return hn::PromoteTo(kDoubles, hn::UpperHalf(kHalfFloats, f)); }
};

template <bool kWhole>  // alpha is 1
struct NestedBody {
  const uint16_t* symbols;
  const float* sides;
  const Nesting& nesting;
  int32_t* fine;
  float* out;

  // q of half of the lanes. Every number here is an integer of at most 18 bits once it is m, so exact.
  HWY_INLINE Doubles fine_half(Doubles y, Doubles u, Doubles k) const {
    const Doubles from_side = hn::Mul(y, hn::Set(kDoubles, nesting.per_side));
    const Doubles from_fine = hn::Mul(hn::Sub(u, k), hn::Set(kDoubles, nesting.per_fine));
    const Doubles z = hn::Add(hn::Add(from_side, from_fine), hn::Set(kDoubles, 0.5));
    const auto most = static_cast<double>(nesting.most);
    const Doubles m = hn::Min(hn::Max(hn::Floor(z), hn::Set(kDoubles, -most)), hn::Set(kDoubles, most));
    return hn::Add(k, hn::Mul(hn::Set(kDoubles, static_cast<double>(nesting.rho)), m));
  }

  template <typename Pick>
  HWY_INLINE auto half(Floats y, Floats u, Floats k, size_t at, Pick pick) const {
    const Doubles wide_y = pick(y), wide_u = pick(u);
    const Doubles q = fine_half(wide_y, wide_u, pick(k));
    if (fine != nullptr) hn::StoreU(hn::DemoteTo(kHalfInts, q), kHalfInts, fine + at);
    if (kWhole) return hn::DemoteTo(kHalfFloats, q);
    const Doubles kept = hn::Mul(hn::Set(kDoubles, nesting.keep), wide_y);
    const Doubles moved = hn::Mul(hn::Set(kDoubles, nesting.cell), hn::Sub(q, wide_u));
    return hn::DemoteTo(kHalfFloats, hn::Add(kept, moved));
  }

  HWY_INLINE void lanes(size_t at, Words words) const {
    fetch_ahead(sides + at);
    fetch_ahead<1>(out + at);
    const auto symbol = hn::PromoteTo(kInts, hn::LoadU(kSymbols, symbols + at));
    const Floats k = hn::ConvertTo(kFloats, hn::Sub(symbol, hn::Set(kInts, static_cast<int32_t>(nesting.rho / 2))));
    const Floats all = hn::LoadU(kFloats, sides + at), u = draw_u(words);
    const auto magnitude = hn::And(hn::BitCast(kInts, all), hn::Set(kInts, 0x7FFFFFFF));
    const auto irregular = hn::Gt(magnitude, hn::Set(kInts, static_cast<int32_t>(kMaxRegularBits)));
    const Floats y = hn::IfThenZeroElse(hn::RebindMask(kFloats, irregular), all);
    const auto lower = half(y, u, k, at, HalfFloats());
    const auto upper = half(y, u, k, at + kLanes / 2, UpperHalfFloats());
    const Floats both = hn::Combine(kFloats, upper, lower);
    const Floats value = kWhole ? hn::Mul(hn::Sub(both, u), hn::Set(kFloats, nesting.step)) : both;
    hn::StoreU(value, kFloats, out + at);
  }

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    lanes(at, low);
    lanes(at + kLanes, high);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    uint16_t symbols_buffer[kBlock] = {};
    float sides_buffer[kBlock] = {}, buffer[kBlock];
    int32_t fine_buffer[kBlock];
    __builtin_memcpy(symbols_buffer + lead, symbols + at, len * sizeof(uint16_t));
    __builtin_memcpy(sides_buffer + lead, sides + at, len * sizeof(float));
    NestedBody{symbols_buffer, sides_buffer, nesting, fine_buffer, buffer}.whole(0, low, high);
    __builtin_memcpy(out + at, buffer + lead, len * sizeof(float));
    if (fine != nullptr) __builtin_memcpy(fine + at, fine_buffer + lead, len * sizeof(int32_t));
  }
};

void nested_decode(const uint16_t* symbols, const float* sides, size_t n, PlainDraws draws, uint64_t first,
                   const Nesting& nesting, int32_t* fine, float* out) {
  if (nesting.alpha == 1) {
    for_blocks(draws, first, n, NestedBody<true>{symbols, sides, nesting, fine, out});
  } else {
    for_blocks(draws, first, n, NestedBody<false>{symbols, sides, nesting, fine, out});
  }
}

constexpr NestedTable kTable = {nested_decode};

}  // namespace
#endif

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define GRADCODEC_SIMD_TABLE NestedTable
#define GRADCODEC_SIMD_CHOSEN chosen_nested_table
#if HWY_TARGET == HWY_EMU128
#define GRADCODEC_SIMD_NONE
#endif
#include "codec/kernels/simd_table-inl.h"
