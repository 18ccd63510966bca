// The loops that touch every element. Plain pointers and sizes; nothing here allocates, throws or knows a scheme.
// `scalar` is the definition: a plain loop each. The functions of the same name outside it pick the best instruction
// set of this machine once a call and give the same bits. The environment variable GRADCODEC_KERNELS forces one
// ("scalar", "SSE4", "AVX2", ...: the names of Highway's targets); an unknown or unavailable name is an error at start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gradcodec::kernels {

// A stream of 32-bit random words, addressed by coordinate: word i is word i % 4 of
// Philox4x32-10(key, counter = {i / 4 low, i / 4 high, ordinal, tag}).
struct Draws {
  std::array<uint32_t, 2> key;
  uint32_t ordinal;
  uint32_t tag;  // stage << 24 | purpose << 16 | sub
};

// v = ((word >> 9) + 0.5) * 2^-23: odd multiples of 2^-24 in (0, 1). u = v - 0.5, exact.

// Largest float32 magnitude that a quantizer takes, 2^126: what is larger, infinite or not a number is an exception.
inline constexpr uint32_t kMaxRegularBits = 0x7E800000;

// Of n float32 values: the largest bit pattern without sign among regular ones (magnitude at most 2^126; 0 if there is
// none), and how many are not regular.
struct MaxAbs {
  uint32_t max_bits = 0;
  uint64_t irregular = 0;
};

// Sixteen interleaved float64 partial sums, element i of a chunk into partial i % 16, in order. `total` adds partial j
// + 8 to partial j for j < 8, then j + 4 to j for j < 4, then j + 2, then j + 1.
struct Sums {
  std::array<double, 16> partial = {};
  double total() const;
};

// Classes of a dither's distance to the point where it decides alone.
inline constexpr uint32_t kDitherClasses = 32;

// Which step and alphabet an encoder rounds to: y = x / step, symbols q + max_level, |q| <= max_level.
// step is 0 or in [2^-126, 2^126]. If it is 0 all symbols are max_level (q = 0) and all values +0.
struct Lattice {
  float step;
  uint32_t max_level;  // M, at most 32,767
};

enum class Half { float16, bfloat16 };

namespace scalar {

// words[i] = word first + i of the stream.
void philox_words(const Draws& draws, uint64_t first, size_t n, uint32_t* words);

MaxAbs max_abs(const float* x, size_t n);

// Adds x (or |x|, or (x - mean)^2 computed as float64) of regular elements; irregular ones add 0. Element 0 goes to
// partial 0.
void add_sum(const float* x, size_t n, Sums& sums);
void add_magnitudes(const float* x, size_t n, Sums& sums);
void add_squares(const float* x, size_t n, double mean, Sums& sums);

// The one rounding primitive with subtractive dither. For element i, v the draw of coordinate first + i:
//   a = |x / step|, k = floor(a), g = a - k, up iff g > 1 - v (x >= 0) or g > v (x < 0), q = sign(x) min(k + up, M)
// x / step is one correctly rounded float32 division when 2M + 1 <= 255; above, k and g are of the exact quotient: with
// r = |x| - k step, exact in float64, up iff r > (1 - v) step (or r > v step), compared exactly in float64.
// symbols[i] = q + M; decoded[i] (if not null) = (float(q) - u) * step, two float32 operations.
// x must be regular; |x| / step at most 32,767 rounded. -0.0 counts as x >= 0.
void dither_encode(const float* x, size_t n, const Draws& draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                   float* decoded);

// out[i] = (float(symbols[i] - M) - u) * step, or +0 where step is 0. The caller has checked that symbols[i] <= 2 M.
void dither_decode(const uint16_t* symbols, size_t n, const Draws& draws, uint64_t first, Lattice lattice, float* out);

// The same with a step for each element, 0 or in [2^-126, 2^126]. Where steps[i] is 0, x[i] must be 0; symbols[i] is
// max_level and the value +0.
void dither_encode_steps(const float* x, const float* steps, size_t n, const Draws& draws, uint64_t first,
                         uint32_t max_level, uint16_t* symbols, float* decoded);
void dither_decode_steps(const uint16_t* symbols, const float* steps, size_t n, const Draws& draws, uint64_t first,
                         uint32_t max_level, float* out);

// contexts[i] = 2 class + mirrored, for the draw of coordinate first + i. With t = word >> 9 and m = min(t, 2^23 - 1 -
// t), the distance of v to 0 or 1 is (m + 1/2) 2^-23: near 0 or 1, q is not 0 even for small x. `class` counts quarter
// octaves of 2 m + 1, the top one being kDitherClasses - 1, all below the lowest being 0. Mirrored: t < 2^22, where it
// is the negative q that is near.
void dither_contexts(const Draws& draws, uint64_t first, size_t n, uint16_t* contexts);

// The same symbols where the decoder does not subtract the dither (QSGD, TernGrad): it takes float(q) * step, one
// float32 operation, +0 for q = 0.
void half_dither_encode(const float* x, size_t n, const Draws& draws, uint64_t first, Lattice lattice,
                        uint16_t* symbols, float* decoded);
void half_dither_decode(const uint16_t* symbols, size_t n, Lattice lattice, float* out);

// Stochastic rounding to levels[0] < ... < levels[count - 1], finite, count from 2 to 65,536. x, which must not be a
// NaN, is clamped to them (-0 counts as 0). In low <= x <= high, neighbouring levels, and v the draw of coordinate
// first + i:
//   x >= 0: up iff x - low > (1 - v) (high - low);   x < 0: down iff high - x > v (high - low)
// all in float64: the distance from the neighbour towards zero, against the thresholds of dither_encode. So the
// probability is right to 2^-24 of a gap, the same for x among the levels and -x among the mirrored ones, and a level
// stays what it is. A float32 quotient would not do: the differences of levels of different size are not float32, and
// rounding them shifts all of an interval to one side. decoded (if not null) is levels[symbol].
void levels_encode(const float* x, size_t n, const Draws& draws, uint64_t first, const float* levels, uint32_t count,
                   uint16_t* symbols, float* decoded);

// out[i] = levels[symbols[i]]. The caller has checked that there are such levels.
void levels_decode(const uint16_t* symbols, size_t n, const float* levels, float* out);

// The two base-L digits of each byte, the least significant first. L is 2 to 16; bytes are below L^2.
void split_pairs(const std::byte* in, size_t n, uint32_t alphabet, uint16_t* symbols);

// quads[i] = s0 + s1 L + s2 L^2 + s3 L^3 of symbols 4 i to 4 i + 3, which are below L. L is 2 to 256.
void join_quads(const uint16_t* symbols, size_t n, uint32_t alphabet, uint32_t* quads);

// Byte j of word i, of `words` words of `word` bytes, to out[j * words + i], and back; for words `from` and later
// alone.
void split_planes(const std::byte* in, size_t from, size_t words, uint32_t word, std::byte* out);
void join_planes(const std::byte* in, size_t from, size_t words, uint32_t word, std::byte* out);

// n little-endian 16-bit floats, at any alignment, to float32; exact, as in codec/float16.h. `in` may be the last 2 n
// bytes of `out` itself.
void widen_half(Half type, const std::byte* in, size_t n, float* out);

// And back, to nearest even. False if a finite value became infinite.
bool narrow_half(Half type, const float* x, size_t n, std::byte* out);

// And back by stochastic narrowing, element i by words[i]. False if a finite value is beyond the largest of the type;
// such values become infinite.
bool narrow_half_by(Half type, const float* x, const uint32_t* words, size_t n, std::byte* out);

}  // namespace scalar

void philox_words(const Draws& draws, uint64_t first, size_t n, uint32_t* words);
MaxAbs max_abs(const float* x, size_t n);
void add_sum(const float* x, size_t n, Sums& sums);
void add_magnitudes(const float* x, size_t n, Sums& sums);
void add_squares(const float* x, size_t n, double mean, Sums& sums);
void dither_encode(const float* x, size_t n, const Draws& draws, uint64_t first, Lattice lattice, uint16_t* symbols,
                   float* decoded);
void dither_decode(const uint16_t* symbols, size_t n, const Draws& draws, uint64_t first, Lattice lattice, float* out);
void dither_encode_steps(const float* x, const float* steps, size_t n, const Draws& draws, uint64_t first,
                         uint32_t max_level, uint16_t* symbols, float* decoded);
void dither_decode_steps(const uint16_t* symbols, const float* steps, size_t n, const Draws& draws, uint64_t first,
                         uint32_t max_level, float* out);
void dither_contexts(const Draws& draws, uint64_t first, size_t n, uint16_t* contexts);
void half_dither_encode(const float* x, size_t n, const Draws& draws, uint64_t first, Lattice lattice,
                        uint16_t* symbols, float* decoded);
void half_dither_decode(const uint16_t* symbols, size_t n, Lattice lattice, float* out);
void levels_encode(const float* x, size_t n, const Draws& draws, uint64_t first, const float* levels, uint32_t count,
                   uint16_t* symbols, float* decoded);
void levels_decode(const uint16_t* symbols, size_t n, const float* levels, float* out);
void split_pairs(const std::byte* in, size_t n, uint32_t alphabet, uint16_t* symbols);
void join_quads(const uint16_t* symbols, size_t n, uint32_t alphabet, uint32_t* quads);
void split_planes(const std::byte* in, size_t words, uint32_t word, std::byte* out);
void join_planes(const std::byte* in, size_t words, uint32_t word, std::byte* out);
void widen_half(Half type, const std::byte* in, size_t n, float* out);
bool narrow_half(Half type, const float* x, size_t n, std::byte* out);
bool narrow_half_by(Half type, const float* x, const uint32_t* words, size_t n, std::byte* out);

// The instruction sets this machine can run, best first, "scalar" last; the one in use is current_target().
std::vector<std::string> available_targets();
std::string current_target();

// Forces a target for the calls that follow ("" = the best). Not while other threads are in a kernel. Returns false,
// and changes nothing, if it is not available. Called by main for GRADCODEC_KERNELS, and by tests.
bool use_target(const std::string& name);

}  // namespace gradcodec::kernels
