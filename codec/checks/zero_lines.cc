// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/zero_lines.h"

#include <algorithm>
#include <atomic>

namespace gradcodec {
namespace {

// Written once: threads would fight for what they share.
void mark(uint8_t& flag) {
  const std::atomic_ref shared(flag);
  if (shared.load(std::memory_order_relaxed) == 0) shared.store(1, std::memory_order_relaxed);
}

uint64_t unmarked(const std::vector<uint8_t>& flags) {
  return static_cast<uint64_t>(std::count(flags.begin(), flags.end(), uint8_t{0}));
}

}  // namespace

ZeroLines::ZeroLines(uint64_t rows, uint64_t columns)
    : rows_(static_cast<size_t>(rows)), columns_(static_cast<size_t>(columns)) {}

template <typename T>
void ZeroLines::look(Range range, std::span<const T> x) {
  size_t row = static_cast<size_t>(range.first / columns_.size()), column = range.first % columns_.size();
  for (size_t at = 0; at < x.size(); column = 0, ++row) {
    const size_t end = std::min(x.size(), at + (columns_.size() - column));
    bool any = false;
    for (; at < end; ++at, ++column) {
      if (x[at] == 0) continue;
      any = true;
      mark(columns_[column]);
    }
    if (any) mark(rows_[row]);
  }
}

uint64_t ZeroLines::zero_rows() const { return unmarked(rows_); }
uint64_t ZeroLines::zero_columns() const { return unmarked(columns_); }

template void ZeroLines::look(Range range, std::span<const float> x);
template void ZeroLines::look(Range range, std::span<const double> x);

}  // namespace gradcodec
