// SPDX-License-Identifier: Apache-2.0
#include "codec/float16.h"

#include <algorithm>
#include <bit>

namespace gradcodec {
namespace {

struct Format {
  int mantissa_bits;
  int min_exponent;  // of the smallest normal number
};
constexpr Format kFloat16 = {10, -14}, kBFloat16 = {7, -126};
constexpr int kMantissaBits = 23, kMinExponent = -126;  // of float32
constexpr uint32_t kInfinity = 0x7F800000;

// The bits of infinity; every finite magnitude is below.
constexpr uint32_t infinity_of(Format format) { return 0x7FFF >> format.mantissa_bits << format.mantissa_bits; }

uint32_t magnitude_of(float x) { return std::bit_cast<uint32_t>(x) & 0x7FFFFFFF; }

uint16_t with_sign_of(float x, uint32_t magnitude) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 31 << 15 | magnitude);
}

// A finite float32 magnitude between 16-bit neighbours, counted from zero by bits: it is `low` + rest / 2^dropped.
// The exponent of `low` may be too large for the format.
struct Place {
  uint32_t low;
  uint32_t rest;  // below 2^24
  int dropped;    // 13 or 16 for normal numbers, up to 63 for small ones (capped: rest / 2^63 is as good as any)
};

Place place_of(uint32_t magnitude, Format format) {
  const int exponent_bits = static_cast<int>(magnitude >> kMantissaBits);
  const int exponent = std::max(exponent_bits, 1) - 1 + kMinExponent;
  const uint32_t hidden = exponent_bits > 0 ? 1u << kMantissaBits : 0;
  const uint32_t significand = (magnitude & ((1u << kMantissaBits) - 1)) | hidden;
  const int above = std::max(exponent - format.min_exponent, 0), below = std::max(format.min_exponent - exponent, 0);
  const int dropped = std::min(kMantissaBits - format.mantissa_bits + below, 63);
  const uint64_t whole = uint64_t{significand} >> dropped;
  return {static_cast<uint32_t>((uint64_t(above) << format.mantissa_bits) + whole),
          static_cast<uint32_t>(significand - (whole << dropped)), dropped};
}

// Of an infinity or a NaN.
uint16_t narrow_special(float x, Format format) {
  const uint32_t magnitude = magnitude_of(x);
  uint32_t narrow = infinity_of(format) | (magnitude & ~kInfinity) >> (kMantissaBits - format.mantissa_bits);
  if (magnitude > kInfinity && narrow == infinity_of(format)) narrow |= 1u << (format.mantissa_bits - 1);
  return with_sign_of(x, narrow);
}

uint16_t narrow_to_nearest(float x, Format format) {
  if (magnitude_of(x) >= kInfinity) return narrow_special(x, format);
  const Place place = place_of(magnitude_of(x), format);
  const uint64_t half = uint64_t{1} << (place.dropped - 1);
  const bool up = place.rest > half || (place.rest == half && place.low % 2 != 0);
  return with_sign_of(x, std::min(place.low + up, infinity_of(format)));
}

std::optional<uint16_t> narrow_stochastically(float x, uint32_t word, Format format) {
  if (magnitude_of(x) >= kInfinity) return narrow_special(x, format);
  const Place place = place_of(magnitude_of(x), format);
  const uint32_t largest = infinity_of(format) - 1;
  if (place.low > largest || (place.low == largest && place.rest > 0)) return std::nullopt;
  const uint64_t threshold = (uint64_t{place.rest} << 32) >> place.dropped;
  return with_sign_of(x, place.low + (word < threshold));
}

}  // namespace

float float16_to_float32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits) >> 15 << 31, exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | kInfinity | mantissa << 13);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // mantissa 2^-24 with its top bit, number `top`, made the hidden one: exponent top - 24 + 127.
  const auto top = static_cast<uint32_t>(std::bit_width(mantissa) - 1);
  return std::bit_cast<float>(sign | (top + 103) << 23 | (mantissa << (23 - top) & 0x7FFFFF));
}

float bfloat16_to_float32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t float32_to_float16(float x) { return narrow_to_nearest(x, kFloat16); }
uint16_t float32_to_bfloat16(float x) { return narrow_to_nearest(x, kBFloat16); }

std::optional<uint16_t> narrow_to_float16(float x, uint32_t word) { return narrow_stochastically(x, word, kFloat16); }
std::optional<uint16_t> narrow_to_bfloat16(float x, uint32_t word) { return narrow_stochastically(x, word, kBFloat16); }

}  // namespace gradcodec
