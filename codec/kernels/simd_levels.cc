// Rounding to a table of levels for every instruction set: compiled, and bound to the bits of scalar.cc, as simd.cc
// says.
//
// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/kernels/simd_levels.cc"

#include "codec/kernels/targets.h"
// Before the next, and the next before its next.
#include <hwy/foreach_target.h>
// After it, as Highway wants.
#include <hwy/highway.h>

#include "codec/kernels/simd-inl.h"
#include "codec/kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace gradcodec::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

namespace {

using Ints = hn::Vec<decltype(kInts)>;

constexpr uint32_t kFewLevels = 16;

// The interval of each value, and its ends.
struct Interval {
  Ints index;
  Floats low, high;
};

// Counts the inner levels that are not above the value, and keeps the last of them and the one after.
HWY_INLINE Interval find_among_few(Floats value, const float* levels, uint32_t count) {
  Interval found = {hn::Zero(kInts), hn::Set(kFloats, levels[0]), hn::Set(kFloats, levels[1])};
  for (uint32_t i = 1; i + 1 < count; ++i) {
    const Floats level = hn::Set(kFloats, levels[i]);
    const auto is_above = hn::Ge(value, level);
    found.index = hn::Sub(found.index, hn::BitCast(kInts, hn::VecFromMask(kFloats, is_above)));
    found.low = hn::IfThenElse(is_above, level, found.low);
    found.high = hn::IfThenElse(is_above, hn::Set(kFloats, levels[i + 1]), found.high);
  }
  return found;
}

HWY_INLINE Interval find_by_halves(Floats value, const float* levels, uint32_t count) {
  Ints index = hn::Zero(kInts);
  for (uint32_t left = count - 1; left > 1;) {
    const uint32_t half = left / 2;
    const Ints middle = hn::Add(index, hn::Set(kInts, static_cast<int32_t>(half)));
    const auto is_above = hn::Ge(value, hn::GatherIndex(kFloats, levels, middle));
    index = hn::IfThenElse(hn::RebindMask(kInts, is_above), middle, index);
    left -= half;
  }
  const Ints next = hn::Add(index, hn::Set(kInts, 1));
  return {index, hn::GatherIndex(kFloats, levels, index), hn::GatherIndex(kFloats, levels, next)};
}

// 1 where rest > threshold gap, else 0, in half of the lanes: round_to_levels of rounding.h.
HWY_INLINE Doubles is_far_half(Doubles value, Doubles low, Doubles high, Doubles threshold) {
  const auto is_negative = hn::Lt(value, hn::Zero(kDoubles));
  const Doubles rest = hn::IfThenElse(is_negative, hn::Sub(high, value), hn::Sub(value, low));
  const auto is_far = hn::Gt(rest, hn::Mul(threshold, hn::Sub(high, low)));
  return hn::IfThenElseZero(is_far, hn::Set(kDoubles, 1.0));
}

template <bool kFew>
struct LevelsBody {
  const float* x;
  const float* levels;
  uint32_t count;
  uint16_t* symbols;
  float* decoded;

  // Returns the symbol in the lower half of each lane.
  HWY_INLINE Words lanes(size_t at, Words words) const {
    const Floats bottom = hn::Set(kFloats, levels[0]), top = hn::Set(kFloats, levels[count - 1]);
    const Floats clamped = hn::Min(hn::Max(hn::LoadU(kFloats, x + at), bottom), top);
    const Floats value = hn::Add(clamped, hn::Zero(kFloats));  // -0 becomes +0
    const Interval at_value = kFew ? find_among_few(value, levels, count) : find_by_halves(value, levels, count);
    const Floats sign = hn::And(value, hn::Set(kFloats, -0.0f));
    const Floats threshold = hn::Sub(hn::Set(kFloats, 0.5f), hn::Xor(draw_u(words), sign));
    const auto half = [&](auto pick) HWY_ATTR {
      const Doubles far = is_far_half(pick(value), pick(at_value.low), pick(at_value.high), pick(threshold));
      return hn::DemoteTo(kHalfFloats, far);
    };
    const auto lower = half([](Floats f) HWY_ATTR { return hn::PromoteTo(kDoubles, hn::LowerHalf(kHalfFloats, f)); });
    const auto upper = half([](Floats f) HWY_ATTR { return hn::PromoteTo(kDoubles, hn::UpperHalf(kHalfFloats, f)); });
    // Far from zero is up for positive values, down for negative ones.
    const auto is_far = hn::Gt(hn::Combine(kFloats, upper, lower), hn::Zero(kFloats));
    const Floats one = hn::Set(kFloats, 1.0f);
    const Floats far_or_not = hn::IfThenElseZero(is_far, one);
    const auto is_negative = hn::Lt(value, hn::Zero(kFloats));
    const Floats up = hn::IfThenElse(is_negative, hn::Sub(one, far_or_not), far_or_not);
    if (decoded != nullptr) {
      hn::StoreU(hn::IfThenElse(hn::Gt(up, hn::Zero(kFloats)), at_value.high, at_value.low), kFloats, decoded + at);
    }
    return hn::BitCast(kWords, hn::Add(at_value.index, hn::ConvertTo(kInts, up)));
  }

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    const auto low_symbols = hn::BitCast(kAllSymbols, lanes(at, low));
    const auto high_symbols = hn::BitCast(kAllSymbols, lanes(at + kLanes, high));
    hn::StoreU(hn::ConcatEven(kAllSymbols, high_symbols, low_symbols), kAllSymbols, symbols + at);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    float x_buffer[kBlock] = {}, decoded_buffer[kBlock];
    uint16_t symbols_buffer[kBlock];
    __builtin_memcpy(x_buffer + lead, x + at, len * sizeof(float));
    LevelsBody{x_buffer, levels, count, symbols_buffer, decoded_buffer}.whole(0, low, high);
    __builtin_memcpy(symbols + at, symbols_buffer + lead, len * sizeof(uint16_t));
    if (decoded != nullptr) __builtin_memcpy(decoded + at, decoded_buffer + lead, len * sizeof(float));
  }
};

void levels_encode(const float* x, size_t n, PlainDraws draws, uint64_t first, const float* levels, uint32_t count,
                   uint16_t* symbols, float* decoded) {
  if (count <= kFewLevels) {
    for_blocks(draws, first, n, LevelsBody<true>{x, levels, count, symbols, decoded});
  } else {
    for_blocks(draws, first, n, LevelsBody<false>{x, levels, count, symbols, decoded});
  }
}

size_t levels_decode(const uint16_t* symbols, size_t n, const float* levels, float* out) {
  const size_t end = n - n % kLanes;
  for (size_t at = 0; at < end; at += kLanes) {
    const Ints index = hn::PromoteTo(kInts, hn::LoadU(kSymbols, symbols + at));
    hn::StoreU(hn::GatherIndex(kFloats, levels, index), kFloats, out + at);
  }
  return end;
}

constexpr LevelTable kTable = {levels_encode, levels_decode};

}  // namespace
#endif

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define GRADCODEC_SIMD_TABLE LevelTable
#define GRADCODEC_SIMD_CHOSEN chosen_level_table
#include "codec/kernels/simd_table-inl.h"
