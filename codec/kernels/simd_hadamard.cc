// The Walsh-Hadamard transform and random signs for every instruction set: compiled, and bound to the bits of
// hadamard.cc, as simd.cc says. Every butterfly of the definition is here once, after those that it depends on; only
// the order among independent ones differs.
//
// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/kernels/simd_hadamard.cc"

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

constexpr size_t kHeadVectors = HWY_MIN(size_t{8}, (size_t{1} << kMinSimdHadamardLog2) / kLanes);
constexpr size_t kTile = 4096;  // floats that stay in the first cache while all their stages are done

// Butterflies of stride 1, 2, ... kCount / 2 vectors among kCount of them.
template <size_t kCount>
HWY_INLINE void butterflies(Floats* v) {
  for (size_t h = 1; h < kCount; h *= 2) {
    for (size_t i = 0; i < kCount; ++i) {
      if ((i & h) != 0) continue;
      const Floats a = v[i], b = v[i + h];
      v[i] = hn::Add(a, b);
      v[i + h] = hn::Sub(a, b);
    }
  }
}

// Those inside a vector. A lane with the bit h takes a - b from a, its partner, and -b, its own; the others a + b.
class InVector {
 public:
  HWY_INLINE InVector() {
    for (size_t stage = 0; stage < kStages; ++stage) {
      HWY_ALIGN int32_t partner[kLanes];
      HWY_ALIGN uint32_t sign[kLanes];
      for (size_t lane = 0; lane < kLanes; ++lane) {
        partner[lane] = static_cast<int32_t>(lane ^ size_t{1} << stage);
        sign[lane] = (lane >> stage & 1) != 0 ? 0x80000000 : 0;
      }
      partner_[stage] = hn::Load(kInts, partner);
      sign_[stage] = hn::BitCast(kFloats, hn::Load(kWords, sign));
    }
  }

  HWY_INLINE Floats of(Floats v) const {
    for (size_t stage = 0; stage < kStages; ++stage) {
      const Floats other = hn::TableLookupLanes(v, hn::IndicesFromVec(kFloats, partner_[stage]));
      v = hn::Add(other, hn::Xor(v, sign_[stage]));
    }
    return v;
  }

 private:
  static constexpr size_t kStages = kLanes == 4 ? 2 : kLanes == 8 ? 3 : 4;
  static_assert(size_t{1} << kStages == kLanes);
  hn::Vec<decltype(kInts)> partner_[kStages];
  Floats sign_[kStages];
};

template <bool kScale>
HWY_INLINE void store(Floats v, Floats scale, float* to) {
  hn::StoreU(kScale ? hn::Mul(v, scale) : v, kFloats, to);
}

// Strides below kHeadVectors vectors.
template <bool kScale>
HWY_INLINE void head(float* x, size_t n, Floats scale) {
  const InVector in_vector;
  for (size_t at = 0; at < n; at += kHeadVectors * kLanes) {
    Floats v[kHeadVectors];
    for (size_t k = 0; k < kHeadVectors; ++k) v[k] = in_vector.of(hn::LoadU(kFloats, x + at + k * kLanes));
    butterflies<kHeadVectors>(v);
    for (size_t k = 0; k < kHeadVectors; ++k) store<kScale>(v[k], scale, x + at + k * kLanes);
  }
}

// Strides h to kRadix h / 2, in one pass over memory.
template <size_t kRadix, bool kScale>
HWY_INLINE void pass(float* x, size_t n, size_t h, Floats scale) {
  for (size_t base = 0; base < n; base += kRadix * h) {
    for (size_t at = base; at < base + h; at += kLanes) {
      Floats v[kRadix];
      for (size_t k = 0; k < kRadix; ++k) v[k] = hn::LoadU(kFloats, x + at + k * h);
      butterflies<kRadix>(v);
      for (size_t k = 0; k < kRadix; ++k) store<kScale>(v[k], scale, x + at + k * h);
    }
  }
}

template <bool kScale>
HWY_INLINE void pass_of(size_t radix, float* x, size_t n, size_t h, Floats scale) {
  if (radix == 8) return pass<8, kScale>(x, n, h, scale);
  if (radix == 4) return pass<4, kScale>(x, n, h, scale);
  pass<2, kScale>(x, n, h, scale);
}

// Strides from h to end / 2; kScale: they are the last.
template <bool kScale>
HWY_INLINE void passes(float* x, size_t n, size_t h, size_t end, Floats scale) {
  while (h < end) {
    const size_t left = end / h;
    const size_t radix = left >= 8 && left != 16 ? 8 : left >= 4 ? 4 : 2;  // 16 in two passes of 4
    if (kScale && left == radix) {
      pass_of<true>(radix, x, n, h, scale);
    } else {
      pass_of<false>(radix, x, n, h, scale);
    }
    h *= radix;
  }
}

void hadamard(float* x, unsigned log2, float factor) {
  constexpr size_t kHead = kHeadVectors * kLanes;
  const size_t n = size_t{1} << log2, tile = HWY_MIN(n, kTile);
  const Floats scale = hn::Set(kFloats, factor);
  if (n == kHead) return head<true>(x, n, scale);
  if (n == tile) {
    head<false>(x, n, scale);
    return passes<true>(x, n, kHead, n, scale);
  }
  for (size_t at = 0; at < n; at += tile) {
    head<false>(x + at, tile, scale);
    passes<false>(x + at, tile, kHead, tile, scale);
  }
  passes<true>(x, n, tile, n, scale);
}

void flip_signs(const float* x, size_t words, const uint32_t* bits, float* out) {
  HWY_ALIGN uint32_t shifts[32];  // bit i to the place of the sign
  for (uint32_t i = 0; i < 32; ++i) shifts[i] = 31 - i;
  const Words sign = hn::Set(kWords, 0x80000000);
  for (size_t word = 0; word < words; ++word) {
    const Words all = hn::Set(kWords, bits[word]);
    for (size_t lane = 0; lane < 32; lane += kLanes) {
      const size_t at = 32 * word + lane;
      const Words flip = hn::And(hn::Shl(all, hn::Load(kWords, shifts + lane)), sign);
      hn::StoreU(hn::Xor(hn::LoadU(kFloats, x + at), hn::BitCast(kFloats, flip)), kFloats, out + at);
    }
  }
}

constexpr HadamardTable kTable = {hadamard, flip_signs};

}  // namespace
#endif

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define GRADCODEC_SIMD_TABLE HadamardTable
#define GRADCODEC_SIMD_CHOSEN chosen_hadamard_table
#include "codec/kernels/simd_table-inl.h"
