// float16 and bfloat16 for every instruction set: compiled, and bound to the bits of scalar.cc, as simd.cc says.
// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/kernels/simd_half.cc"

#include "codec/kernels/targets.h"
// Before the next, and the next before its next.
#include <hwy/foreach_target.h>
// After it, as Highway wants.
#include <hwy/highway.h>

#include "codec/kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace gradcodec::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
constexpr FloatTag kFloats;
constexpr hn::RebindToSigned<FloatTag> kInts;
constexpr hn::RebindToUnsigned<FloatTag> kWords;
constexpr hn::Rebind<uint16_t, FloatTag> kHalves;          // as many as floats
constexpr hn::Repartition<uint16_t, FloatTag> kAllHalves;  // of two vectors of floats
constexpr hn::Repartition<uint8_t, FloatTag> kAllBytes;
constexpr hn::Repartition<uint8_t, decltype(kHalves)> kBytes;
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<decltype(kInts)>;
using Words = hn::Vec<decltype(kWords)>;
using WordMask = hn::Mask<decltype(kInts)>;
constexpr size_t kLanes = hn::MaxLanes(FloatTag());

HWY_INLINE Ints ints(int32_t value) { return hn::Set(kInts, value); }

// Where a < b, of 32-bit words.
HWY_INLINE WordMask is_less(Words a, Words b) {
  const Words flip = hn::Set(kWords, 0x80000000);
  return hn::Lt(hn::BitCast(kInts, hn::Xor(a, flip)), hn::BitCast(kInts, hn::Xor(b, flip)));
}

// What becomes of finite magnitudes, given and returned as bits. `low` and the threshold of stochastic narrowing are
// those of codec/float16.cc.
struct Narrowed {
  Ints low;
  Words threshold;
};

struct BFloat16 {
  static constexpr int kDropped = 16;
  static constexpr int32_t kInfinity = 0x7F80, kQuiet = 0x40, kLargest = 0x7F7F0000;  // the last as float32

  static HWY_INLINE Floats widen(Words bits) { return hn::BitCast(kFloats, hn::ShiftLeft<16>(bits)); }

  static HWY_INLINE Ints nearest(Ints magnitude) {
    const Ints odd = hn::And(hn::ShiftRight<16>(magnitude), ints(1));
    return hn::ShiftRight<16>(hn::Add(magnitude, hn::Add(odd, ints(0x7FFF))));
  }

  static HWY_INLINE Narrowed place(Ints magnitude) {
    return {hn::ShiftRight<16>(magnitude), hn::ShiftLeft<16>(hn::BitCast(kWords, magnitude))};
  }
};

struct Float16 {
  static constexpr int kDropped = 13;
  static constexpr int32_t kInfinity = 0x7C00, kQuiet = 0x200, kLargest = 0x477FE000;
  static constexpr int32_t kSmallestNormal = 0x38800000;  // 2^-14
  static constexpr int32_t kRebias = 112 << 10;

  static HWY_INLINE Floats widen(Words bits) {
    const Words sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(kWords, 0x8000)));
    const Ints magnitude = hn::BitCast(kInts, hn::And(bits, hn::Set(kWords, 0x7FFF)));
    const Ints moved = hn::ShiftLeft<13>(magnitude);
    const Ints rebias = hn::Add(ints(112 << 23), hn::IfThenElseZero(hn::Gt(magnitude, ints(0x7BFF)), ints(112 << 23)));
    // Subnormal ones are multiples of 2^-24: exact, and normal as float32.
    const Floats small = hn::Mul(hn::ConvertTo(kFloats, magnitude), hn::Set(kFloats, 0x1p-24f));
    const auto is_small = hn::Lt(magnitude, ints(0x400));
    const Ints wide = hn::IfThenElse(is_small, hn::BitCast(kInts, small), hn::Add(moved, rebias));
    return hn::BitCast(kFloats, hn::Or(hn::BitCast(kWords, wide), sign));
  }

  static HWY_INLINE Ints nearest(Ints magnitude) {
    const Ints odd = hn::And(hn::ShiftRight<13>(magnitude), ints(1));
    const Ints normal = hn::Sub(hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, ints(0xFFF)))), ints(kRebias));
    // Floats between 1/2 and 1 are 2^-24 apart, as subnormal float16 are: the addition rounds as wanted.
    const Floats shifted = hn::Add(hn::BitCast(kFloats, magnitude), hn::Set(kFloats, 0.5f));
    const Ints small = hn::Sub(hn::BitCast(kInts, shifted), ints(0x3F000000));
    const auto is_small = hn::Lt(magnitude, ints(kSmallestNormal));
    return hn::IfThenElse(is_small, small, hn::Min(normal, ints(kInfinity)));
  }

  static HWY_INLINE Narrowed place(Ints magnitude) {
    const Ints low = hn::Sub(hn::ShiftRight<13>(magnitude), ints(kRebias));
    const Ints rest = hn::ShiftLeft<19>(magnitude);
    // Below the normal ones, in units of 2^-24: the integer part, and 32 bits of the fraction, 16 at a time. Exact.
    const auto is_small = hn::Lt(magnitude, ints(kSmallestNormal));
    const Floats value = hn::IfThenElseZero(hn::RebindMask(kFloats, is_small), hn::BitCast(kFloats, magnitude));
    const Floats units = hn::Mul(value, hn::Set(kFloats, 0x1p24f));
    const Ints whole = hn::ConvertTo(kInts, units);
    const Floats upper_part = hn::Mul(hn::Sub(units, hn::ConvertTo(kFloats, whole)), hn::Set(kFloats, 0x1p16f));
    const Ints upper = hn::ConvertTo(kInts, upper_part);
    const Floats lower_part = hn::Mul(hn::Sub(upper_part, hn::ConvertTo(kFloats, upper)), hn::Set(kFloats, 0x1p16f));
    const Ints fraction = hn::Or(hn::ShiftLeft<16>(upper), hn::ConvertTo(kInts, lower_part));
    return {hn::IfThenElse(is_small, whole, low), hn::BitCast(kWords, hn::IfThenElse(is_small, fraction, rest))};
  }
};

template <typename Format>
HWY_INLINE size_t widen(const uint8_t* in, size_t n, float* out) {
  const size_t end = n - n % kLanes;
  for (size_t at = 0; at < end; at += kLanes) {
    const auto bits = hn::BitCast(kHalves, hn::LoadU(kBytes, in + 2 * at));
    hn::StoreU(Format::widen(hn::PromoteTo(kWords, bits)), kFloats, out + at);
  }
  return end;
}

// The sign of x put back, and infinities and NaN in their places, in the lower half of each lane.
template <typename Format>
HWY_INLINE Words finish(Words bits, Ints magnitude, Ints narrow) {
  const Ints payload = hn::ShiftRight<Format::kDropped>(hn::And(magnitude, ints(0x7FFFFF)));
  const Ints infinity = ints(0x7F800000);
  const auto is_cut = hn::And(hn::Gt(magnitude, infinity), hn::Eq(payload, hn::Zero(kInts)));
  const Ints quiet = hn::IfThenElseZero(is_cut, ints(Format::kQuiet));
  const Ints special = hn::Or(ints(Format::kInfinity), hn::Or(payload, quiet));
  const Ints all = hn::IfThenElse(hn::Lt(magnitude, infinity), narrow, special);
  const Words sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(kWords, 0x8000));
  return hn::Or(sign, hn::BitCast(kWords, all));
}

template <typename Format>
HWY_INLINE WordMask is_too_large(Ints magnitude) {
  return hn::And(hn::Gt(magnitude, ints(Format::kLargest)), hn::Lt(magnitude, ints(0x7F800000)));
}

HWY_INLINE Ints magnitude_of(Words bits) { return hn::BitCast(kInts, hn::And(bits, hn::Set(kWords, 0x7FFFFFFF))); }

template <typename Format>
struct Nearest {
  // Into `lost`, ones where a finite value became infinite.
  HWY_INLINE Words narrow(Words bits, size_t, Ints& lost) const {
    const Ints magnitude = magnitude_of(bits), narrow = Format::nearest(magnitude);
    const auto is_lost = hn::And(hn::Lt(magnitude, ints(0x7F800000)), hn::Eq(narrow, ints(Format::kInfinity)));
    lost = hn::Or(lost, hn::VecFromMask(kInts, is_lost));
    return finish<Format>(bits, magnitude, narrow);
  }
};

template <typename Format>
struct Stochastic {
  const uint32_t* words;

  HWY_INLINE Words narrow(Words bits, size_t at, Ints& lost) const {
    const Ints magnitude = magnitude_of(bits);
    const Narrowed place = Format::place(magnitude);
    const auto is_up = is_less(hn::LoadU(kWords, words + at), place.threshold);
    const auto is_lost = is_too_large<Format>(magnitude);
    const Ints narrow = hn::Sub(place.low, hn::VecFromMask(kInts, is_up));
    lost = hn::Or(lost, hn::VecFromMask(kInts, is_lost));
    return finish<Format>(bits, magnitude, hn::IfThenElse(is_lost, ints(Format::kInfinity), narrow));
  }
};

template <typename Rounding>
HWY_INLINE size_t narrow(const float* x, size_t n, const Rounding& rounding, uint8_t* out, bool* fits) {
  const size_t end = n - n % (2 * kLanes);
  Ints lost = hn::Zero(kInts);
  for (size_t at = 0; at < end; at += 2 * kLanes) {
    const Words low = hn::BitCast(kWords, hn::LoadU(kFloats, x + at));
    const Words high = hn::BitCast(kWords, hn::LoadU(kFloats, x + at + kLanes));
    const auto low_halves = hn::BitCast(kAllHalves, rounding.narrow(low, at, lost));
    const auto high_halves = hn::BitCast(kAllHalves, rounding.narrow(high, at + kLanes, lost));
    const auto halves = hn::ConcatEven(kAllHalves, high_halves, low_halves);
    hn::StoreU(hn::BitCast(kAllBytes, halves), kAllBytes, out + 2 * at);
  }
  *fits = *fits && hn::AllTrue(kInts, hn::Eq(lost, hn::Zero(kInts)));
  return end;
}

size_t widen_half(Half type, const uint8_t* in, size_t n, float* out) {
  return type == Half::float16 ? widen<Float16>(in, n, out) : widen<BFloat16>(in, n, out);
}

size_t narrow_half(Half type, const float* x, size_t n, uint8_t* out, bool* fits) {
  return type == Half::float16 ? narrow(x, n, Nearest<Float16>(), out, fits)
                               : narrow(x, n, Nearest<BFloat16>(), out, fits);
}

size_t narrow_half_by(Half type, const float* x, const uint32_t* words, size_t n, uint8_t* out, bool* fits) {
  return type == Half::float16 ? narrow(x, n, Stochastic<Float16>{words}, out, fits)
                               : narrow(x, n, Stochastic<BFloat16>{words}, out, fits);
}

constexpr HalfTable kTable = {widen_half, narrow_half, narrow_half_by};

}  // namespace
#endif

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define GRADCODEC_SIMD_TABLE HalfTable
#define GRADCODEC_SIMD_CHOSEN chosen_half_table
#include "codec/kernels/simd_table-inl.h"
