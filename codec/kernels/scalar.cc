// The definition of every kernel: what the vectorised ones must equal to the bit, and what a port should follow.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "codec/float16.h"
#include "codec/kernels/kernels.h"
#include "codec/kernels/philox.h"
#include "codec/kernels/rounding.h"

namespace gradcodec::kernels {
namespace {

uint16_t infinity_of(Half type) { return type == Half::float16 ? 0x7C00 : 0x7F80; }

bool is_regular(float x) { return (std::bit_cast<uint32_t>(x) & 0x7FFFFFFF) <= kMaxRegularBits; }

// The words of a stream from `first` on, one counter computed for every four of them.
class Words {
 public:
  Words(const Draws& draws, uint64_t first) : draws_(draws), index_(first) {
    if (index_ % 4 != 0) fill();
  }

  uint32_t next() {
    if (index_ % 4 == 0) fill();
    return block_[index_++ % 4];
  }

 private:
  void fill() {
    const uint64_t quad = index_ / 4;
    block_ = philox4x32(draws_.key,
                        {static_cast<uint32_t>(quad), static_cast<uint32_t>(quad >> 32), draws_.ordinal, draws_.tag});
  }

  Draws draws_;
  uint64_t index_;
  std::array<uint32_t, 4> block_ = {};
};

// `restored(q, v, step)` is the decoded value.
template <typename Restored>
void encode(const float* x, size_t n, const Draws& draws, uint64_t first, Lattice lattice, uint16_t* symbols,
            float* decoded, const Restored& restored) {
  const float step = lattice.step, max_level = static_cast<float>(lattice.max_level);
  if (step == 0) {
    std::fill_n(symbols, n, static_cast<uint16_t>(lattice.max_level));
    if (decoded != nullptr) std::fill_n(decoded, n, 0.0f);
    return;
  }
  const bool few_levels = 2 * lattice.max_level + 1 <= 255;
  Words words(draws, first);
  for (size_t i = 0; i < n; ++i) {
    const float v = draw_v(words.next());
    const int32_t q = few_levels ? round_float32(x[i], v, step, max_level) : round_float64(x[i], v, step, max_level);
    symbols[i] = static_cast<uint16_t>(q + static_cast<int32_t>(lattice.max_level));
    if (decoded != nullptr) decoded[i] = restored(q, v, step);
  }
}

}  // namespace

double Sums::total() const {
  auto sum = partial;
  for (size_t half = 8; half >= 1; half /= 2) {
    for (size_t j = 0; j < half; ++j) sum[j] += sum[j + half];
  }
  return sum[0];
}

namespace scalar {

void philox_words(const Draws& draws, uint64_t first, size_t n, uint32_t* words) {
  Words stream(draws, first);
  for (size_t i = 0; i < n; ++i) words[i] = stream.next();
}

MaxAbs max_abs(const float* x, size_t n) {
  MaxAbs result;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF;
    if (bits > kMaxRegularBits) {
      ++result.irregular;
    } else if (bits > result.max_bits) {
      result.max_bits = bits;
    }
  }
  return result;
}

void add_sum(const float* x, size_t n, Sums& sums) {
  for (size_t i = 0; i < n; ++i) sums.partial[i % 16] += is_regular(x[i]) ? double{x[i]} : 0.0;
}

void add_magnitudes(const float* x, size_t n, Sums& sums) {
  for (size_t i = 0; i < n; ++i) sums.partial[i % 16] += is_regular(x[i]) ? std::fabs(double{x[i]}) : 0.0;
}

void add_squares(const float* x, size_t n, double mean, Sums& sums) {
  for (size_t i = 0; i < n; ++i) {
    const double distance = double{x[i]} - mean;
    sums.partial[i % 16] += is_regular(x[i]) ? distance * distance : 0.0;
  }
}

void dither_encode(const float* x, size_t n, const Draws& draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                   float* decoded) {
  encode(x, n, draws, first, lattice, symbols, decoded, restore);
}

void dither_decode(const uint16_t* symbols, size_t n, const Draws& draws, uint64_t first, Lattice lattice, float* out) {
  if (lattice.step == 0) {
    std::fill_n(out, n, 0.0f);
    return;
  }
  Words words(draws, first);
  for (size_t i = 0; i < n; ++i) {
    const float v = draw_v(words.next());
    out[i] = restore(int32_t{symbols[i]} - static_cast<int32_t>(lattice.max_level), v, lattice.step);
  }
}

void dither_encode_steps(const float* x, const float* steps, size_t n, const Draws& draws, uint64_t first,
                         uint32_t max_level, uint16_t* symbols, float* decoded) {
  const bool few_levels = 2 * max_level + 1 <= 255;
  const auto most = static_cast<float>(max_level);
  Words words(draws, first);
  for (size_t i = 0; i < n; ++i) {
    const float v = draw_v(words.next()), step = steps[i];
    int32_t q = 0;
    if (step != 0) q = few_levels ? round_float32(x[i], v, step, most) : round_float64(x[i], v, step, most);
    symbols[i] = static_cast<uint16_t>(q + static_cast<int32_t>(max_level));
    if (decoded != nullptr) decoded[i] = step == 0 ? 0.0f : restore(q, v, step);
  }
}

void dither_decode_steps(const uint16_t* symbols, const float* steps, size_t n, const Draws& draws, uint64_t first,
                         uint32_t max_level, float* out) {
  Words words(draws, first);
  for (size_t i = 0; i < n; ++i) {
    const float v = draw_v(words.next());
    out[i] = steps[i] == 0 ? 0.0f : restore(int32_t{symbols[i]} - static_cast<int32_t>(max_level), v, steps[i]);
  }
}

void dither_contexts(const Draws& draws, uint64_t first, size_t n, uint16_t* contexts) {
  Words words(draws, first);
  for (size_t i = 0; i < n; ++i) contexts[i] = dither_context(words.next());
}

void half_dither_encode(const float* x, size_t n, const Draws& draws, uint64_t first, Lattice lattice,
                        uint16_t* symbols, float* decoded) {
  encode(x, n, draws, first, lattice, symbols, decoded,
         [](int32_t q, float, float step) { return restore_level(q, step); });
}

void half_dither_decode(const uint16_t* symbols, size_t n, Lattice lattice, float* out) {
  for (size_t i = 0; i < n; ++i) {
    const int32_t q = int32_t{symbols[i]} - static_cast<int32_t>(lattice.max_level);
    out[i] = lattice.step == 0 ? 0.0f : restore_level(q, lattice.step);
  }
}

void levels_encode(const float* x, size_t n, const Draws& draws, uint64_t first, const float* levels, uint32_t count,
                   uint16_t* symbols, float* decoded) {
  Words words(draws, first);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t symbol = round_to_levels(x[i], draw_v(words.next()), levels, count);
    symbols[i] = static_cast<uint16_t>(symbol);
    if (decoded != nullptr) decoded[i] = levels[symbol];
  }
}

void levels_decode(const uint16_t* symbols, size_t n, const float* levels, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = levels[symbols[i]];
}

void split_pairs(const std::byte* in, size_t n, uint32_t alphabet, uint16_t* symbols) {
  for (size_t i = 0; i < n; ++i) {
    const auto pair = static_cast<uint32_t>(in[i]);
    symbols[2 * i] = static_cast<uint16_t>(pair % alphabet);
    symbols[2 * i + 1] = static_cast<uint16_t>(pair / alphabet);
  }
}

void join_quads(const uint16_t* symbols, size_t n, uint32_t alphabet, uint32_t* quads) {
  for (size_t i = 0; i < n; ++i, symbols += 4) {
    quads[i] = symbols[0] + alphabet * (symbols[1] + alphabet * (symbols[2] + alphabet * symbols[3]));
  }
}

void split_planes(const std::byte* in, size_t from, size_t words, uint32_t word, std::byte* out) {
  if (word == 1) std::copy(in + from, in + words, out + from);  // which the compiler does not see by itself
  for (uint32_t j = 0; j < word && word > 1; ++j) {
    for (size_t i = from; i < words; ++i) out[j * words + i] = in[i * word + j];
  }
}

void join_planes(const std::byte* in, size_t from, size_t words, uint32_t word, std::byte* out) {
  if (word == 1) std::copy(in + from, in + words, out + from);
  for (uint32_t j = 0; j < word && word > 1; ++j) {
    for (size_t i = from; i < words; ++i) out[i * word + j] = in[j * words + i];
  }
}

void widen_half(Half type, const std::byte* in, size_t n, float* out) {
  const auto widen_one = type == Half::float16 ? float16_to_float32 : bfloat16_to_float32;
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, in + 2 * i, sizeof bits);
    out[i] = widen_one(bits);
  }
}

bool narrow_half(Half type, const float* x, size_t n, std::byte* out) {
  const auto narrow_one = type == Half::float16 ? float32_to_float16 : float32_to_bfloat16;
  bool fits = true;
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = narrow_one(x[i]);
    fits = fits && ((bits & 0x7FFF) != infinity_of(type) || std::isinf(x[i]));
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
  return fits;
}

bool narrow_half_by(Half type, const float* x, const uint32_t* words, size_t n, std::byte* out) {
  const auto narrow_one = type == Half::float16 ? narrow_to_float16 : narrow_to_bfloat16;
  bool fits = true;
  for (size_t i = 0; i < n; ++i) {
    const std::optional<uint16_t> narrow = narrow_one(x[i], words[i]);
    const uint16_t bits = narrow.value_or(static_cast<uint16_t>(infinity_of(type) | (x[i] < 0 ? 0x8000 : 0)));
    fits = fits && narrow.has_value();
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
  return fits;
}

}  // namespace scalar
}  // namespace gradcodec::kernels
