// SPDX-License-Identifier: Apache-2.0
#include "codec/kernels/hadamard.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/kernels/simd.h"

#ifdef __FAST_MATH__
#error "results are defined by IEEE arithmetic: build without -ffast-math"
#endif

namespace gradcodec::kernels {
namespace {

constexpr size_t kRun = 4096;  // signs whose words are made at once

// Of `words` words and the bits of one more: those from bit `lead` on. Nothing else is read if lead is 0.
void shift_down(uint32_t* words, size_t count, unsigned lead) {
  if (lead == 0) return;
  for (size_t i = 0; i < count; ++i) words[i] = words[i] >> lead | words[i + 1] << (32 - lead);
}

}  // namespace

float hadamard_scale(unsigned log2) {
  float scale = log2 % 2 == 0 ? 1.0f : 0x1.6a09e6p-1f;
  for (unsigned i = 0; i < log2 / 2; ++i) scale *= 0.5f;
  return scale;
}

double hadamard_error(unsigned log2, double norm) {
  // (1 + u)^k - 1 < k u (1 + k u) for so small a k u.
  const double roundings = (log2 + 2) * 0x1p-24;
  return roundings * (1 + roundings) * norm + std::sqrt(static_cast<double>(size_t{1} << log2)) * 0x1p-150;
}

namespace scalar {

void hadamard(float* x, unsigned log2) {
  const size_t n = size_t{1} << log2;
  for (size_t h = 1; h < n; h *= 2) {
    for (size_t i = 0; i < n; ++i) {
      if ((i & h) != 0) continue;
      const float a = x[i], b = x[i + h];
      x[i] = a + b;
      x[i + h] = a - b;
    }
  }
  const float scale = hadamard_scale(log2);
  for (size_t i = 0; i < n; ++i) x[i] *= scale;
}

void flip_signs(const Draws& draws, uint64_t first, size_t n, const float* x, float* out) {
  uint32_t word = 0;
  for (size_t i = 0; i < n; ++i) {
    const unsigned bit = static_cast<unsigned>((first + i) % 32);
    if (i == 0 || bit == 0) scalar::philox_words(draws, (first + i) / 32, 1, &word);
    out[i] = (word >> bit & 1) != 0 ? -x[i] : x[i];
  }
}

}  // namespace scalar

void hadamard(float* x, unsigned log2) {
  const HadamardTable* simd = hadamard_table();
  if (simd == nullptr || log2 < kMinSimdHadamardLog2) return scalar::hadamard(x, log2);
  simd->hadamard(x, log2, hadamard_scale(log2));
}

void flip_signs(const Draws& draws, uint64_t first, size_t n, const float* x, float* out) {
  const HadamardTable* simd = hadamard_table();
  if (simd == nullptr) return scalar::flip_signs(draws, first, n, x, out);
  std::array<uint32_t, kRun / 32 + 1> words;
  for (size_t at = 0; at < n; at += kRun) {
    const size_t len = std::min(kRun, n - at), whole = len / 32;
    const auto lead = static_cast<unsigned>((first + at) % 32);
    philox_words(draws, (first + at) / 32, (lead + len + 31) / 32, words.data());
    shift_down(words.data(), whole, lead);
    simd->flip_signs(x + at, whole, words.data(), out + at);
    scalar::flip_signs(draws, first + at + 32 * whole, len % 32, x + at + 32 * whole, out + at + 32 * whole);
  }
}

}  // namespace gradcodec::kernels
