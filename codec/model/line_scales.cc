// SPDX-License-Identifier: Apache-2.0
#include "codec/model/line_scales.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "codec/coders/pack.h"
#include "codec/coders/rans.h"
#include "codec/kernels/kernels.h"
#include "codec/model/rows.h"
#include "codec/rans/code_length.h"
#include "codec/scan.h"

namespace gradcodec {
namespace {

constexpr uint64_t kMostCols = 1 << 16;  // sums of columns are held for each chunk that is read at once
constexpr uint64_t kMostRows = 1 << 20;  // a few bytes may claim them all, and each has a class in memory
constexpr uint64_t kAtOnce = 16;         // chunks
constexpr int32_t kMostBase = 1 << 14;   // sixteenths of octaves: no float32 over another is further off

// Whether lines of a tensor may be told apart, and so the number of rows; else 0.
uint64_t rows_with_lines(const Inputs& inputs, uint64_t worth) {
  if (inputs.rows == 0 || inputs.size == 0) return 0;
  const uint64_t cols = inputs.size / inputs.rows;
  const bool few = inputs.rows <= kMostRows && cols <= kMostCols;
  return few && inputs.rows + cols <= inputs.size / worth ? inputs.rows : 0;
}

// Sums of magnitudes of a chunk.
struct Part {
  uint64_t first_row = 0;
  std::vector<double> rows, cols;  // of the rows it touches; of all columns
};

void add_columns(std::span<const float> x, double* cols) {
  for (size_t i = 0; i < x.size(); ++i) {
    const bool is_regular = (std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF) <= kernels::kMaxRegularBits;
    cols[i] += is_regular ? std::fabs(static_cast<double>(x[i])) : 0.0;
  }
}

Part part_of(Range range, std::span<const float> x, uint64_t cols) {
  Part part;
  part.first_row = range.first / cols;
  part.cols.assign(static_cast<size_t>(cols), 0);
  for (uint64_t at = 0; at < range.count;) {
    const uint64_t col = (range.first + at) % cols, count = std::min(range.count - at, cols - col);
    const std::span<const float> row = x.subspan(static_cast<size_t>(at), static_cast<size_t>(count));
    kernels::Sums sums;
    kernels::add_magnitudes(row.data(), row.size(), sums);
    part.rows.push_back(sums.total());
    add_columns(row, part.cols.data() + col);
    at += count;
  }
  return part;
}

double sum_of(std::span<const double> sums) {
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

Stream stream_of(const std::vector<uint8_t>& classes) {
  Stream stream;
  stream.alphabet = LineScales::kClasses;
  stream.symbols.assign(classes.begin(), classes.end());
  return stream;
}

void write_classes(const std::vector<uint8_t>& classes, Bytes& out) {
  const Stream stream = stream_of(classes);
  Bytes bytes;
  rans_coder().shrink(stream, bytes);
  const bool packed = bytes.size() >= pack_coder().fixed_size(stream.alphabet, stream.count()).value();
  if (packed) {
    bytes.clear();
    pack_coder().shrink(stream, bytes);
  }
  put_varint(out, 2 * bytes.size() + (packed ? 1 : 0));
  put_bytes(out, bytes);
}

std::vector<uint8_t> read_classes(ByteReader& in, uint64_t head, uint64_t count) {
  Stream stream;
  stream.alphabet = LineScales::kClasses;
  (head % 2 == 0 ? rans_coder() : pack_coder()).expand(in.get_bytes(head / 2), count, stream);
  return {stream.symbols.begin(), stream.symbols.end()};
}

}  // namespace

int32_t fixed_log2_of(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const auto exponent = static_cast<int32_t>(bits >> 52) - 1023;
  const auto mantissa = static_cast<uint32_t>(1u << 31 | (bits >> 21 & 0x7FFFFFFF));
  return (exponent - 31) * (1 << kLengthBits) + static_cast<int32_t>(fixed_log2(mantissa));
}

LineScales LineScales::measure(const Tensor& tensor, const Inputs& inputs, uint64_t worth) {
  LineScales scales;
  scales.size_ = tensor.size();
  scales.rows_ = rows_with_lines(inputs, worth);
  if (scales.rows_ == 0) {
    double total = 0;
    scan_chunks(
        tensor, inputs,
        [](Range, std::span<const float> x) {
          kernels::Sums sums;
          kernels::add_magnitudes(x.data(), x.size(), sums);
          return sums.total();
        },
        [&](double part) { total += part; });
    if (total > 0) scales.base_of_unit_ = fixed_log2_of(1.25 * (total / static_cast<double>(tensor.size())));
    scales.mean_of_unit_ = scales.base_of_unit_;
    return scales;
  }
  const uint64_t cols = tensor.size() / scales.rows_;
  std::vector<double> row_sums(static_cast<size_t>(scales.rows_)), col_sums(static_cast<size_t>(cols));
  scan_chunks<kAtOnce>(
      tensor, inputs, [&](Range range, std::span<const float> x) { return part_of(range, x, cols); },
      [&](const Part& part) {
        for (size_t i = 0; i < part.rows.size(); ++i) row_sums[static_cast<size_t>(part.first_row) + i] += part.rows[i];
        for (size_t i = 0; i < part.cols.size(); ++i) col_sums[i] += part.cols[i];
      });
  const double total = sum_of(row_sums);
  if (total == 0) {
    scales.row_classes_.assign(row_sums.size(), kZero);
    scales.col_classes_.assign(col_sums.size(), kZero);
    return scales;
  }
  int32_t largest_row = 0, largest_col = 0;
  scales.set_classes(row_sums, total, scales.row_classes_, largest_row);
  scales.set_classes(col_sums, total, scales.col_classes_, largest_col);
  scales.mean_of_unit_ = fixed_log2_of(1.25 * (total / static_cast<double>(tensor.size())));
  scales.base_of_unit_ = scales.mean_of_unit_ + (int64_t{largest_row} + largest_col) * (1 << kLengthBits) / 2;
  return scales;
}

// Of sums of lines of one kind, half octaves about their mean.
void LineScales::set_classes(std::span<const double> sums, double total, std::vector<uint8_t>& classes,
                             int32_t& largest) const {
  std::vector<int32_t> halves(sums.size());
  const double mean = total / static_cast<double>(sums.size());
  largest = -(1 << 20);
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == 0) continue;
    halves[i] = (2 * fixed_log2_of(sums[i] / mean) + (1 << (kLengthBits - 1))) >> kLengthBits;
    largest = std::max(largest, halves[i]);
  }
  classes.resize(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    classes[i] = sums[i] == 0 ? kZero : static_cast<uint8_t>(std::min<int32_t>(largest - halves[i], kZero - 1));
  }
}

void LineScales::set_step(double step) {
  const int64_t base = (16 * (base_of_unit_ - fixed_log2_of(step)) + (1 << (kLengthBits - 1))) >> kLengthBits;
  base_ = static_cast<int32_t>(std::clamp<int64_t>(base, -kMostBase, kMostBase));
}

bool LineScales::lines_pay() const {
  if (!has_lines()) return false;
  Bytes stored;
  write_classes(row_classes_, stored);
  write_classes(col_classes_, stored);
  const std::vector<uint64_t> of_sum = counts_of_sums();
  std::array<uint64_t, kScaleClasses + 1> counts = {};
  for (size_t sum = 0; sum < of_sum.size(); ++sum) {
    counts[scale_class_of(base_ - 8 * static_cast<int32_t>(sum))] += of_sum[sum];
  }
  counts[kZeroScale] = size_ - std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  uint64_t with = uint64_t{8} * stored.size() << kLengthBits;
  for (uint32_t scale = 0; scale < kScaleClasses; ++scale) with += counts[scale] * model_bits(scale);
  return with < mixed_bits(counts);
}

void LineScales::forget_lines() {
  base_of_unit_ = mean_of_unit_;
  row_classes_.clear();
  col_classes_.clear();
}

void LineScales::write(Bytes& out) const {
  put_varint(out, base_ < 0 ? 2 * static_cast<uint64_t>(-(base_ + 1)) + 1 : 2 * static_cast<uint64_t>(base_));
  if (rows_ == 0) return;
  if (!has_lines()) return put_varint(out, 0);
  write_classes(row_classes_, out);
  write_classes(col_classes_, out);
}

LineScales LineScales::restore(ByteReader& stored, const Inputs& inputs, uint64_t worth) {
  LineScales scales;
  scales.size_ = inputs.size;
  scales.rows_ = rows_with_lines(inputs, worth);
  const uint64_t base = stored.get_varint();
  if (base > 2 * uint64_t{kMostBase}) stored.fail("says scales that no step has");
  scales.base_ = static_cast<int32_t>(base / 2);
  if (base % 2 != 0) scales.base_ = -scales.base_ - 1;
  if (scales.rows_ == 0) return scales;
  const uint64_t head = stored.get_varint();
  if (head == 0) return scales;
  scales.row_classes_ = read_classes(stored, head, scales.rows_);
  scales.col_classes_ = read_classes(stored, stored.get_varint(), inputs.size / scales.rows_);
  return scales;
}

std::vector<uint64_t> LineScales::counts_of_sums() const {
  std::vector<uint64_t> counts(kSums);
  if (!has_lines()) {
    counts[0] = size_;
    return counts;
  }
  std::array<uint64_t, kClasses> rows = {}, cols = {};
  for (const uint8_t row : row_classes_) ++rows[row];
  for (const uint8_t col : col_classes_) ++cols[col];
  for (size_t row = 0; row < kZero; ++row) {
    for (size_t col = 0; col < kZero; ++col) counts[row + col] += rows[row] * cols[col];
  }
  return counts;
}

}  // namespace gradcodec
