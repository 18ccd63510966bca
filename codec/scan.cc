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

// The chunk's extent, if the policy allows it.
Extent allowed_extent(Range range, std::span<const float> x, Nonfinite policy) {
  const Extent extent = extent_of(x);
  if (extent.irregular > 0 && policy == Nonfinite::error) refuse_nonfinite(range, x);
  return extent;
}

void add_to(Extent& whole, const Extent& part) {
  whole.max = std::max(whole.max, part.max);
  whole.irregular += part.irregular;
}

double scan_sum(const Tensor& tensor, const Inputs& inputs) {
  double total = 0;
  const auto look = [](Range, std::span<const float> x) {
    kernels::Sums sums;
    kernels::add_sum(x.data(), x.size(), sums);
    return sums.total();
  };
  scan_chunks(tensor, inputs, look, [&](double part) { total += part; });
  return total;
}

double squares_about(std::span<const float> x, double mean) {
  kernels::Sums sums;
  kernels::add_squares(x.data(), x.size(), mean, sums);
  return sums.total();
}

}  // namespace

std::span<const float> read_regular(const Tensor& tensor, Range range, bool irregular, Code& code) {
  code.scratch.resize(std::max(code.scratch.size(), static_cast<size_t>(range.count)));
  const std::span<float> scratch = std::span(code.scratch).first(static_cast<size_t>(range.count));
  const std::span<const float> x = tensor.read(range, scratch);
  if (!irregular) return x;
  if (x.data() != scratch.data()) std::copy(x.begin(), x.end(), scratch.begin());
  set_aside(scratch, std::numeric_limits<double>::infinity(), 0, code.exceptions);
  return scratch;
}

void require_needed(const Exception& exception, bool is_zero, double limit) {
  if (!fits(exception.bits, limit) && is_zero) return;
  throw Error(Exit::bad_input, "element " + std::to_string(exception.index) +
                                   " of the chunk is an exception without need, or has a symbol too");
}

std::span<float> chunk_room(uint64_t count) {
  thread_local std::vector<float> room;
  room.resize(std::max(room.size(), static_cast<size_t>(count)));
  return std::span(room).first(static_cast<size_t>(count));
}

Extent extent_of(std::span<const float> x) {
  const kernels::MaxAbs found = kernels::max_abs(x.data(), x.size());
  return {std::bit_cast<float>(found.max_bits), found.irregular};
}

double squares_of(std::span<const float> x) { return squares_about(x, 0.0); }

Extent scan_extent(const Tensor& tensor, const Inputs& inputs) {
  Extent whole;
  const auto look = [&](Range range, std::span<const float> x) { return allowed_extent(range, x, inputs.nonfinite); };
  scan_chunks(tensor, inputs, look, [&](const Extent& part) { add_to(whole, part); });
  return whole;
}

Energy scan_energy(const Tensor& tensor, const Inputs& inputs) {
  Energy whole;
  const auto look = [&](Range range, std::span<const float> x) -> Energy {
    return {allowed_extent(range, x, inputs.nonfinite), squares_of(x)};
  };
  scan_chunks(tensor, inputs, look, [&](const Energy& part) {
    add_to(whole.extent, part.extent);
    whole.squares += part.squares;
  });
  return whole;
}

double scan_squares(const Tensor& tensor, const Inputs& inputs, double mean) {
  double total = 0;
  const auto look = [&](Range, std::span<const float> x) { return squares_about(x, mean); };
  scan_chunks(tensor, inputs, look, [&](double part) { total += part; });
  return total;
}

double scan_deviation(const Tensor& tensor, const Inputs& inputs, uint64_t irregular) {
  const uint64_t n = tensor.size() - irregular;
  if (n == 0) return 0;
  const double mean = scan_sum(tensor, inputs) / static_cast<double>(n);
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
