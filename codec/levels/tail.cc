// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/tail.h"

#include <algorithm>
#include <array>
#include <bit>

#include "codec/functions.h"

namespace gradcodec {
namespace {

constexpr double kLeastExponent = 3.01, kGreatestExponent = 5;

uint32_t magnitude_bits(float x) { return std::bit_cast<uint32_t>(x) & 0x7FFFFFFF; }

bool is_regular(uint32_t bits) { return bits <= kernels::kMaxRegularBits; }

// The digits of a magnitude's 31 bits, the most significant first.
struct Digit {
  unsigned shift, width;
};
constexpr std::array<Digit, 3> kDigits = {{{20, 11}, {10, 10}, {0, 10}}};

using Counts = std::vector<uint64_t>;

// How many regular magnitudes, of those whose bits above the digit are `above`, have each value of the digit.
// Neighbours are counted apart: many have the same digit, and would wait for each other.
std::vector<uint32_t> count_digits(std::span<const float> x, Digit digit, uint32_t above) {
  constexpr size_t kApart = 4;
  const size_t values = size_t{1} << digit.width;
  std::vector<uint32_t> counts(kApart * values, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t bits = magnitude_bits(x[i]);
    if (bits >> digit.shift >> digit.width != above || !is_regular(bits)) continue;
    ++counts[i % kApart * values + (bits >> digit.shift) % values];
  }
  for (size_t i = values; i < counts.size(); ++i) counts[i % values] += counts[i];
  counts.resize(values);
  return counts;
}

Counts scan_digits(const Tensor& tensor, const Inputs& inputs, Digit digit, uint32_t above) {
  Counts whole(size_t{1} << digit.width, 0);
  const auto look = [=](Range, std::span<const float> x) { return count_digits(x, digit, above); };
  scan_chunks(tensor, inputs, look, [&](const std::vector<uint32_t>& part) {
    for (size_t i = 0; i < whole.size(); ++i) whole[i] += part[i];
  });
  return whole;
}

uint64_t scan_zeros(const Tensor& tensor, const Inputs& inputs) {
  uint64_t zeros = 0;
  const auto look = [](Range, std::span<const float> x) {
    return static_cast<uint64_t>(std::count_if(x.begin(), x.end(), [](float value) { return value == 0; }));
  };
  scan_chunks(tensor, inputs, look, [&](uint64_t part) { zeros += part; });
  return zeros;
}

struct Excess {
  uint64_t count = 0;
  double logarithms = 0;  // sum of ln(|x| / begin)
};

Excess scan_excess(const Tensor& tensor, const Inputs& inputs, float begin) {
  Excess whole;
  const uint32_t begin_bits = magnitude_bits(begin);
  const auto unit = static_cast<double>(begin);
  const auto look = [=](Range, std::span<const float> x) {
    Excess part;
    kernels::Sums sums;
    for (size_t i = 0; i < x.size(); ++i) {
      const uint32_t bits = magnitude_bits(x[i]);
      if (!is_regular(bits) || bits <= begin_bits) continue;
      ++part.count;
      sums.partial[i % sums.partial.size()] +=
          functions::natural_log(static_cast<double>(std::bit_cast<float>(bits)) / unit);
    }
    part.logarithms = sums.total();
    return part;
  };
  scan_chunks(tensor, inputs, look, [&](const Excess& part) {
    whole.count += part.count;
    whole.logarithms += part.logarithms;
  });
  return whole;
}

uint64_t nine_tenths(uint64_t n) { return n - n / 10; }

}  // namespace

double scan_mean_magnitude(const Tensor& tensor, const Inputs& inputs, uint64_t irregular) {
  const uint64_t n = tensor.size() - irregular;
  if (n == 0) return 0;
  double total = 0;
  const auto look = [](Range, std::span<const float> x) {
    kernels::Sums sums;
    kernels::add_magnitudes(x.data(), x.size(), sums);
    return sums.total();
  };
  scan_chunks(tensor, inputs, look, [&](double part) { total += part; });
  return total / static_cast<double>(n);
}

float scan_magnitude_of_rank(const Tensor& tensor, const Inputs& inputs, uint64_t rank) {
  uint32_t bits = 0;
  for (const Digit digit : kDigits) {
    const Counts counts = scan_digits(tensor, inputs, digit, bits);
    uint32_t value = 0;
    while (value + 1 < counts.size() && counts[value] < rank) rank -= counts[value++];
    bits = bits << digit.width | value;
  }
  return std::bit_cast<float>(bits);
}

float scan_tail_begin(const Tensor& tensor, const Inputs& inputs, uint64_t irregular) {
  const uint64_t n = tensor.size() - irregular;
  if (n == 0) return 0;
  const float begin = scan_magnitude_of_rank(tensor, inputs, nine_tenths(n));
  if (begin != 0) return begin;
  const uint64_t zeros = scan_zeros(tensor, inputs);
  return zeros == n ? 0 : scan_magnitude_of_rank(tensor, inputs, zeros + nine_tenths(n - zeros));
}

std::optional<Tail> scan_tail(const Tensor& tensor, const Inputs& inputs, uint64_t irregular) {
  const float begin = scan_tail_begin(tensor, inputs, irregular);
  if (begin == 0) return {};
  const Excess excess = scan_excess(tensor, inputs, begin);
  if (excess.count < 2) return {};
  const auto count = static_cast<double>(excess.count);
  const double exponent = 1 + count / excess.logarithms;
  return Tail{begin,
              {std::clamp(exponent, kLeastExponent, kGreatestExponent),
               count / (2 * static_cast<double>(tensor.size() - irregular))}};
}

}  // namespace gradcodec
