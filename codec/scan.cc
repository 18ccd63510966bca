// SPDX-License-Identifier: Apache-2.0
#include "codec/scan.h"

#include <bit>
#include <cmath>

#include "codec/error.h"

namespace gradcodec {
namespace {

void refuse_nonfinite(Range range, std::span<const float> x) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) {
      const std::string what = std::isnan(x[i]) ? "not a number" : "infinite (as float32)";
      throw Error(Exit::bad_input,
                  "element " + std::to_string(range.first + i) + " (counted from 0, C order) is " + what +
                      ": mend the dump, keep such values, as float32, with --nonfinite keep, or use --scheme raw");
    }
  }
}

}  // namespace

Extent extent_of(std::span<const float> x) {
  const kernels::MaxAbs found = kernels::max_abs(x.data(), x.size());
  return {std::bit_cast<float>(found.max_bits), found.irregular};
}

double squares_of(std::span<const float> x) {
  kernels::Sums sums;
  kernels::add_squares(x.data(), x.size(), 0.0, sums);
  return sums.total();
}

Extent scan_extent(const Tensor& tensor, const Inputs& inputs) {
  Extent whole;
  for_each_chunk(tensor, inputs.chunk_len, [&](Range range, std::span<const float> x) {
    const Extent chunk = extent_of(x);
    if (chunk.irregular > 0 && inputs.nonfinite == Nonfinite::error) refuse_nonfinite(range, x);
    whole.max = std::max(whole.max, chunk.max);
    whole.irregular += chunk.irregular;
  });
  return whole;
}

double scan_squares(const Tensor& tensor, const Inputs& inputs, double mean) {
  double total = 0;
  for_each_chunk(tensor, inputs.chunk_len, [&](Range, std::span<const float> x) {
    kernels::Sums sums;
    kernels::add_squares(x.data(), x.size(), mean, sums);
    total += sums.total();
  });
  return total;
}

double scan_deviation(const Tensor& tensor, const Inputs& inputs, uint64_t irregular) {
  const uint64_t n = tensor.size() - irregular;
  if (n == 0) return 0;
  double total = 0;
  for_each_chunk(tensor, inputs.chunk_len, [&](Range, std::span<const float> x) {
    kernels::Sums sums;
    kernels::add_sum(x.data(), x.size(), sums);
    total += sums.total();
  });
  const double mean = total / static_cast<double>(n);
  return std::sqrt(scan_squares(tensor, inputs, mean) / static_cast<double>(n));
}

bool fits(uint32_t bits, double limit) {
  return (bits & 0x7FFFFFFF) <= kernels::kMaxRegularBits &&
         std::fabs(static_cast<double>(std::bit_cast<float>(bits))) <= limit;
}

void set_aside(std::span<float> x, double limit, uint64_t base, std::vector<Exception>& list) {
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(x[i]);
    if (fits(bits, limit)) continue;
    list.push_back({base + i, bits});
    x[i] = 0;
  }
}

void put_back(std::span<const Exception> list, std::span<float> chunk) {
  for (const Exception& exception : list) {
    chunk[static_cast<size_t>(exception.index)] = std::bit_cast<float>(exception.bits);
  }
}

}  // namespace gradcodec
