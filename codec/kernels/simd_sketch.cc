// The loops of count sketches for every instruction set: compiled, and bound to the bits of sketch.cc, as simd.cc says.
// Minima and maxima of floats may differ in the sign of zero, which the last addition takes away.
//
// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/kernels/simd_sketch.cc"

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

HWY_INLINE Words buckets_of(Words words, uint32_t cols) {
  const Words rest = hn::ShiftLeft<1>(words), factor = hn::Set(kWords, cols);
  const Quads even = hn::MulEven(rest, factor);
  const Quads odd = hn::MulEven(hn::Shuffle2301(rest), factor);
  const Quads upper = hn::Set(kQuads, 0xFFFFFFFF00000000);
  return hn::BitCast(kWords, hn::Or(hn::ShiftRight<32>(even), hn::And(odd, upper)));
}

HWY_INLINE Floats with_sign(Floats x, Words words) {
  return hn::Xor(x, hn::BitCast(kFloats, hn::And(words, hn::Set(kWords, 0x80000000))));
}

struct TermsBody {
  const float* x;
  uint32_t cols;
  uint32_t* buckets;
  float* terms;

  HWY_INLINE void lanes(size_t at, Words words) const {
    hn::StoreU(buckets_of(words, cols), kWords, buckets + at);
    hn::StoreU(with_sign(hn::LoadU(kFloats, x + at), words), kFloats, terms + at);
  }

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    fetch_ahead(x + at);
    lanes(at, low);
    lanes(at + kLanes, high);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    float values[kBlock] = {}, signed_values[kBlock];
    uint32_t places[kBlock];
    __builtin_memcpy(values + lead, x + at, len * sizeof(float));
    TermsBody{values, cols, places, signed_values}.whole(0, low, high);
    __builtin_memcpy(buckets + at, places + lead, len * sizeof(uint32_t));
    __builtin_memcpy(terms + at, signed_values + lead, len * sizeof(float));
  }
};

void terms(PlainDraws draws, uint64_t first, const float* x, size_t n, uint32_t cols, uint32_t* buckets, float* out) {
  for_blocks(draws, first, n, TermsBody{x, cols, buckets, out});
}

struct RowBody {
  uint32_t cols;
  const float* row;
  float* out;

  HWY_INLINE void lanes(size_t at, Words words) const {
    const Floats cells = hn::GatherIndex(kFloats, row, hn::BitCast(kInts, buckets_of(words, cols)));
    hn::StoreU(with_sign(cells, words), kFloats, out + at);
  }

  HWY_INLINE void whole(size_t at, Words low, Words high) const {
    lanes(at, low);
    lanes(at + kLanes, high);
  }

  HWY_INLINE void part(size_t at, size_t lead, size_t len, Words low, Words high) const {
    float buffer[kBlock];
    RowBody{cols, row, buffer}.whole(0, low, high);
    __builtin_memcpy(out + at, buffer + lead, len * sizeof(float));
  }
};

void row(PlainDraws draws, uint64_t first, size_t n, uint32_t cols, const float* cells, float* out) {
  for_blocks(draws, first, n, RowBody{cols, cells, out});
}

template <typename V>
HWY_INLINE void sort_two(V& a, V& b) {
  const V least = hn::Min(a, b);
  b = hn::Max(a, b);
  a = least;
}

// The smallest of what is left to each place in turn, as far as the middle.
template <typename V>
HWY_INLINE V middle(V* v, unsigned count) {
  for (unsigned place = 0; place <= count / 2; ++place) {
    for (unsigned other = place + 1; other < count; ++other) sort_two(v[place], v[other]);
  }
  return v[count / 2];
}

template <unsigned kCount>
HWY_INLINE void medians_of(const float* rows, size_t stride, size_t end, float* out) {
  const Floats zero = hn::Zero(kFloats);
  for (size_t at = 0; at < end; at += kLanes) {
    Floats v[kCount];
    for (unsigned r = 0; r < kCount; ++r) v[r] = hn::LoadU(kFloats, rows + r * stride + at);
    hn::StoreU(hn::Add(middle(v, kCount), zero), kFloats, out + at);
  }
}

size_t medians(const float* rows, size_t stride, unsigned count, size_t n, float* out) {
  const size_t end = n - n % kLanes;
  if (count == 1) {
    medians_of<1>(rows, stride, end, out);
  } else if (count == 3) {
    medians_of<3>(rows, stride, end, out);
  } else if (count == 5) {
    medians_of<5>(rows, stride, end, out);
  } else if (count == 7) {
    medians_of<7>(rows, stride, end, out);
  } else {
    const Floats zero = hn::Zero(kFloats);
    for (size_t at = 0; at < end; at += kLanes) {
      Floats v[64];  // kMaxSketchRows and one
      for (unsigned r = 0; r < count; ++r) v[r] = hn::LoadU(kFloats, rows + r * stride + at);
      hn::StoreU(hn::Add(middle(v, count), zero), kFloats, out + at);
    }
  }
  return end;
}

constexpr hn::Repartition<int64_t, FloatTag> kLongs;

template <unsigned kMost>
HWY_INLINE void whole_medians_of(const int64_t* rows, size_t stride, unsigned count, size_t end, int64_t* out) {
  for (size_t at = 0; at < end; at += kLanes / 2) {
    hn::Vec<decltype(kLongs)> v[kMost];
    for (unsigned r = 0; r < count; ++r) v[r] = hn::LoadU(kLongs, rows + r * stride + at);
    hn::StoreU(middle(v, count), kLongs, out + at);
  }
}

size_t whole_medians(const int64_t* rows, size_t stride, unsigned count, size_t n, int64_t* out) {
  const size_t end = n - n % (kLanes / 2);
  if (count == 3) {
    whole_medians_of<3>(rows, stride, 3, end, out);
  } else if (count == 5) {
    whole_medians_of<5>(rows, stride, 5, end, out);
  } else {
    whole_medians_of<64>(rows, stride, count, end, out);
  }
  return end;
}

constexpr SketchTable kTable = {terms, row, medians, whole_medians};

}  // namespace
#endif

}  // namespace gradcodec::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#define GRADCODEC_SIMD_TABLE SketchTable
#define GRADCODEC_SIMD_CHOSEN chosen_sketch_table
#include "codec/kernels/simd_table-inl.h"
