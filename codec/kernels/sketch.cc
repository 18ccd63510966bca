// SPDX-License-Identifier: Apache-2.0
#include "codec/kernels/sketch.h"

#include <algorithm>
#include <array>

#include "codec/kernels/simd.h"

namespace gradcodec::kernels {
namespace {

constexpr size_t kRun = 1024;  // words that are made at once

// visit(i, word) for each of n coordinates.
template <typename Visit>
void for_words(const Draws& draws, uint64_t first, size_t n, Visit visit) {
  std::array<uint32_t, kRun> words;
  for (size_t at = 0; at < n; at += kRun) {
    const size_t len = std::min(kRun, n - at);
    scalar::philox_words(draws, first + at, len, words.data());
    for (size_t i = 0; i < len; ++i) visit(at + i, words[i]);
  }
}

template <typename T>
void medians_of(const T* rows, size_t stride, unsigned count, size_t n, T* out) {
  std::array<T, kMaxSketchRows> said;
  for (size_t i = 0; i < n; ++i) {
    for (unsigned r = 0; r < count; ++r) said[r] = rows[r * stride + i];
    const auto middle = said.begin() + count / 2;
    std::nth_element(said.begin(), middle, said.begin() + count);
    out[i] = *middle + T{0};  // never -0
  }
}

}  // namespace

namespace scalar {

void sketch_terms(const Draws& draws, uint64_t first, const float* x, size_t n, uint32_t cols, uint32_t* buckets,
                  float* terms) {
  for_words(draws, first, n, [&](size_t i, uint32_t word) {
    buckets[i] = sketch_bucket(word, cols);
    terms[i] = sketch_minus(word) ? -x[i] : x[i];
  });
}

void sketch_row(const Draws& draws, uint64_t first, size_t n, uint32_t cols, const float* row, float* out) {
  for_words(draws, first, n, [&](size_t i, uint32_t word) {
    const float cell = row[sketch_bucket(word, cols)];
    out[i] = sketch_minus(word) ? -cell : cell;
  });
}

void sketch_medians(const float* rows, size_t stride, unsigned count, size_t n, float* out) {
  medians_of(rows, stride, count, n, out);
}

void sketch_medians(const int64_t* rows, size_t stride, unsigned count, size_t n, int64_t* out) {
  medians_of(rows, stride, count, n, out);
}

}  // namespace scalar

void sketch_terms(const Draws& draws, uint64_t first, const float* x, size_t n, uint32_t cols, uint32_t* buckets,
                  float* terms) {
  const SketchTable* simd = sketch_table();
  if (simd == nullptr) return scalar::sketch_terms(draws, first, x, n, cols, buckets, terms);
  simd->terms({draws.key[0], draws.key[1], draws.ordinal, draws.tag}, first, x, n, cols, buckets, terms);
}

void sketch_row(const Draws& draws, uint64_t first, size_t n, uint32_t cols, const float* row, float* out) {
  const SketchTable* simd = sketch_table();
  if (simd == nullptr) return scalar::sketch_row(draws, first, n, cols, row, out);
  simd->row({draws.key[0], draws.key[1], draws.ordinal, draws.tag}, first, n, cols, row, out);
}

void sketch_medians(const float* rows, size_t stride, unsigned count, size_t n, float* out) {
  const SketchTable* simd = sketch_table();
  const size_t done = simd == nullptr ? 0 : simd->medians(rows, stride, count, n, out);
  scalar::sketch_medians(rows + done, stride, count, n - done, out + done);
}

void sketch_medians(const int64_t* rows, size_t stride, unsigned count, size_t n, int64_t* out) {
  const SketchTable* simd = sketch_table();
  const size_t done = simd == nullptr ? 0 : simd->whole_medians(rows, stride, count, n, out);
  scalar::sketch_medians(rows + done, stride, count, n - done, out + done);
}

}  // namespace gradcodec::kernels
