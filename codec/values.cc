// SPDX-License-Identifier: Apache-2.0
#include "codec/values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "codec/error.h"
#include "codec/float16.h"

namespace gradcodec {
namespace {

double double_at(ByteView bytes, size_t i) { return load_little<double>(bytes.data() + i * sizeof(double)); }

// Beyond float32's range by rounding: infinity, as the conversion of IEEE 754 says (in C++ it is undefined).
// NaN goes by its bits, as processors differ there: sign, the top of the payload, and never an infinity.
float to_float(double x) {
  if (std::isnan(x)) {
    const auto bits = std::bit_cast<uint64_t>(x);
    const auto payload = static_cast<uint32_t>(bits >> 29) & 0x7FFFFF;
    return std::bit_cast<float>(static_cast<uint32_t>(bits >> 63) << 31 | 0x7F800000 |
                                (payload == 0 ? 0x400000 : payload));
  }
  constexpr double kHalfwayToInfinity = 0x1.ffffffp127;
  if (std::fabs(x) >= kHalfwayToInfinity)
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(std::copysign(1.0, x)));
  return static_cast<float>(x);
}

void widen_doubles(ByteView in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = to_float(double_at(in, i));
}

double to_double(float x) {
  if (!std::isnan(x)) return static_cast<double>(x);
  const uint64_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<double>(bits >> 31 << 63 | uint64_t{0x7FF} << 52 | (bits & 0x7FFFFF) << 29);
}

void to_doubles(std::span<const float> x, std::span<std::byte> out) {
  for (size_t i = 0; i < x.size(); ++i) store_little(to_double(x[i]), out.data() + i * sizeof(double));
}

// The types that hold every float32, and no elements of any. False for the others.
bool store_wide(std::span<const float> x, const DType& dtype, std::span<std::byte> out) {
  if (x.empty()) return true;
  if (dtype.code == DType::f4) store_little(x, out.data());
  if (dtype.code == DType::f8) to_doubles(x, out);
  return dtype.code == DType::f4 || dtype.code == DType::f8;
}

// `x` in its own type, whose digits are told.
template <typename T>
[[noreturn]] void too_large(T x, uint64_t index, const DType& dtype, const std::string& wider) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  throw Error(Exit::limit, "element " + std::to_string(index) + " decodes to " + std::string(text.data(), end) +
                               ", beyond the range of " + dtype.name() + ": write a wider type with --dtype " + wider);
}

// Names the first finite element beyond `largest`.
[[noreturn]] void fail_too_large(std::span<const float> x, uint64_t first, const DType& dtype, float largest) {
  const auto beyond = [&](float value) { return std::isfinite(value) && std::fabs(value) > largest; };
  const auto found = std::find_if(x.begin(), x.end(), beyond);
  too_large(*found, first + static_cast<uint64_t>(found - x.begin()), dtype, "f4");
}

kernels::Half half_of(const DType& dtype) {
  return dtype.code == DType::f2 ? kernels::Half::float16 : kernels::Half::bfloat16;
}

}  // namespace

void widen(const DType& dtype, ByteView in, std::span<float> out) {
  switch (dtype.code) {
    case DType::f4:
      load_little(in.data(), out);
      return;
    case DType::f8:
      widen_doubles(in, out);
      return;
    default:
      kernels::widen_half(half_of(dtype), in.data(), out.size(), out.data());
  }
}

void round_doubles(ByteView in, uint64_t first, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const double x = double_at(in, i);
    out[i] = to_float(x);
    if (std::isinf(out[i]) && std::isfinite(x)) too_large(x, first + i, DType::parse("f4"), "f8");
  }
}

void widen_to_odd(ByteView in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const double x = double_at(in, i);
    const float nearest = to_float(x);
    auto bits = std::bit_cast<uint32_t>(nearest);
    if (!std::isnan(x) && static_cast<double>(nearest) != x) {
      if (std::fabs(static_cast<double>(nearest)) > std::fabs(x)) --bits;  // towards zero; from infinity too
      bits |= 1;
    }
    out[i] = std::bit_cast<float>(bits);
  }
}

void narrow(std::span<const float> x, const DType& dtype, const kernels::Draws& draws, uint64_t first,
            std::span<std::byte> out) {
  if (store_wide(x, dtype, out)) return;
  std::array<uint32_t, 1024> words;
  const kernels::Half type = half_of(dtype);
  for (size_t at = 0; at < x.size(); at += words.size()) {
    const size_t count = std::min(words.size(), x.size() - at);
    kernels::philox_words(draws, first + at, count, words.data());
    if (!kernels::narrow_half_by(type, &x[at], words.data(), count, out.data() + 2 * at)) {
      fail_too_large(x, first, dtype, type == kernels::Half::float16 ? 65504.0f : 0x1.fep127f);
    }
  }
}

void narrowing_laws(std::span<const float> x, const DType& dtype, std::span<Law> laws) {
  const bool half = dtype.code == DType::f2;
  const auto narrow_one = half ? narrow_to_float16 : narrow_to_bfloat16;
  const auto widen_one = half ? float16_to_float32 : bfloat16_to_float32;
  for (size_t i = 0; i < x.size(); ++i) {
    // The smallest word goes away from zero, the largest towards it.
    const std::optional<uint16_t> away = narrow_one(x[i], 0), near = narrow_one(x[i], ~uint32_t{0});
    if (!std::isfinite(x[i])) {
      laws[i] = Law::at(0);
    } else if (!away || !near) {
      laws[i] = {Law::outside, 0, 0, 0};
    } else if (*away == *near) {  // a value of the type, or too close to one for any word to move it
      laws[i] = Law::at(static_cast<double>(widen_one(*near)) - static_cast<double>(x[i]));
    } else {
      const auto a = static_cast<double>(widen_one(*away)), b = static_cast<double>(widen_one(*near));
      laws[i] = Law::rounded(static_cast<double>(x[i]), std::min(a, b), std::max(a, b));
    }
  }
}

void round_to(std::span<const float> x, const DType& dtype, uint64_t first, std::span<std::byte> out) {
  if (store_wide(x, dtype, out)) return;
  const kernels::Half type = half_of(dtype);
  if (!kernels::narrow_half(type, x.data(), x.size(), out.data())) {
    // Half a step past the largest, which is where rounding goes to infinity: the largest float32 that does not.
    fail_too_large(x, first, dtype, type == kernels::Half::float16 ? 0x1.ffdffep15f : 0x1.fefffep127f);
  }
}

}  // namespace gradcodec
