// SPDX-License-Identifier: Apache-2.0
#include "codec/kernels/nested.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "codec/kernels/rounding.h"
#include "codec/kernels/simd.h"

namespace gradcodec::kernels {
namespace {

constexpr size_t kRun = 1024;  // words made at once

void decode_run(const uint16_t* symbols, const float* sides, size_t n, const uint32_t* words, const Nesting& nesting,
                int32_t* fine, float* out) {
  const int32_t rho = static_cast<int32_t>(nesting.rho), half = rho / 2;
  const double most = nesting.most;
  for (size_t i = 0; i < n; ++i) {
    const float v = draw_v(words[i]);
    const double u = double{v} - 0.5;  // exact
    const bool regular = (std::bit_cast<uint32_t>(sides[i]) & 0x7FFFFFFF) <= kMaxRegularBits;
    const double y = regular ? double{sides[i]} : 0.0;
    const int32_t k = int32_t{symbols[i]} - half;
    const double m = std::floor((y * nesting.per_side + (u - k) * nesting.per_fine) + 0.5);
    const int32_t q = k + rho * static_cast<int32_t>(std::clamp(m, -most, most));
    if (fine != nullptr) fine[i] = q;
    out[i] = nesting.alpha == 1 ? restore(q, v, nesting.step)
                                : static_cast<float>(nesting.keep * y + nesting.cell * (q - u));
  }
}

}  // namespace

namespace scalar {

void nested_decode(const uint16_t* symbols, const float* sides, size_t n, const Draws& draws, uint64_t first,
                   const Nesting& nesting, int32_t* fine, float* out) {
  std::array<uint32_t, kRun> words;
  for (size_t at = 0; at < n; at += kRun) {
    const size_t len = std::min(kRun, n - at);
    scalar::philox_words(draws, first + at, len, words.data());
    decode_run(symbols + at, sides + at, len, words.data(), nesting, fine == nullptr ? nullptr : fine + at, out + at);
  }
}

}  // namespace scalar

void nested_decode(const uint16_t* symbols, const float* sides, size_t n, const Draws& draws, uint64_t first,
                   const Nesting& nesting, int32_t* fine, float* out) {
  const NestedTable* simd = nested_table();
  if (simd == nullptr) return scalar::nested_decode(symbols, sides, n, draws, first, nesting, fine, out);
  const PlainDraws plain = {draws.key[0], draws.key[1], draws.ordinal, draws.tag};
  simd->decode(symbols, sides, n, plain, first, nesting, fine, out);
}

}  // namespace gradcodec::kernels
