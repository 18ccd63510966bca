// The passes over a dump that its statistics are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "format/crew.h"
#include "format/dump_tensor.h"
#include "format/ordered.h"
#include "format/statistics.h"

namespace gradcodec {

inline constexpr uint64_t kStatisticsChunk = uint64_t{1} << kDefaultChunkLog2;

// Fills summaries and zero rows and columns of `out.tensors` (which list the tensors), `out.whole` and `out.groups`.
void summarize_values(Source& source, const StatisticsOptions& options, Progress& progress, DumpStatistics& out);

// Fills the schemes of `out.tensors` and `out.schemes`.
void summarize_schemes(Source& source, const StatisticsOptions& options, Progress& progress, DumpStatistics& out);

// Fills `out.cosines`.
void compare_workers(Source& source, const StatisticsOptions& options, DumpStatistics& out);

// Opens a tensor; what is thrown names it.
inline std::unique_ptr<DumpTensor> open_tensor(Source& source, const TensorSummary& tensor) {
  return in_tensor(tensor.info, [&] { return std::make_unique<DumpTensor>(tensor.info, source.open(tensor.ordinal)); });
}

// The values of `range` in `buffer`, resized to hold them.
inline void read_values(const DumpTensor& tensor, Range range, std::vector<float>& buffer) {
  buffer.resize(static_cast<size_t>(range.count));
  tensor.read(range, buffer);
}
inline void read_values(const DumpTensor& tensor, Range range, std::vector<double>& buffer) {
  buffer.resize(static_cast<size_t>(range.count));
  tensor.read_exactly(range, buffer);
}

// Chunks of `tensors` tensors of `size` elements: work(Item&) in parallel, take(Item&) in order; item.range says which.
// A tensor of one chunk is worked on by the caller alone. No more chunks at once than fit into memory.
template <typename Item, typename Work, typename Take>
void for_chunks(const StatisticsOptions& options, uint64_t size, uint64_t chunk_len, uint64_t tensors, Work work,
                Take take) {
  const uint64_t chunks = (size + chunk_len - 1) / chunk_len;
  const auto used = static_cast<unsigned>(std::min<uint64_t>(options.threads, chunks));
  constexpr uint64_t kCost = 24;  // bytes an element: as stored, as float64 or float32 twice, symbols
  const uint64_t room = options.memory / (kCost * chunk_len * tensors);
  uint64_t first = 0;
  run_ordered<Item>(
      used, static_cast<size_t>(std::clamp<uint64_t>(room, 1, uint64_t{2} * used)),
      [&](Item& item) {
        if (first == size) return false;
        item.range = {first, std::min(chunk_len, size - first)};
        first += item.range.count;
        return true;
      },
      work, take);
}

// True if some tensor needs float64 to be held exactly.
inline bool needs_doubles(const std::vector<TensorSummary>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorSummary& tensor) { return tensor.info.dtype.code == DType::f8; });
}

}  // namespace gradcodec
