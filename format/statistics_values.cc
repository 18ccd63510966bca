// The pass over the values: moments chunk by chunk, and copies to sort as far as memory goes.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "codec/checks/zero_lines.h"
#include "format/statistics_parts.h"
#include "format/trace_names.h"

namespace gradcodec {
namespace {

using GroupKey = std::pair<std::optional<uint64_t>, std::optional<uint64_t>>;  // step, worker

// T: what holds every value of the dump.
template <typename T>
class ValuePass {
 public:
  ValuePass(Source& source, const StatisticsOptions& options, Progress& progress, DumpStatistics& out)
      : source_(source), options_(options), progress_(progress), out_(out), kept_(out.tensors.size()) {
    for (size_t i = 0; i < out.tensors.size(); ++i) {
      const TraceName name = parse_trace_name(out.tensors[i].info.name);
      if (name.in_trace()) groups_[{name.step, name.worker}].push_back(i);
    }
    keeps_ = out.tensors.size() == 1 || fits(bytes_together());
  }

  void run() {
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      read_tensor(i);
      std::vector<T>& values = kept_[i];
      finish(out_.tensors[i].summary, values);
      if (!keeps_) values = {};
    }
    for (const auto& [key, members] : groups_) {
      GroupSummary& group = out_.groups.emplace_back();
      std::tie(group.step, group.worker) = key;
      group.tensors = members.size();
      group.summary = together(members, false);
    }
    std::vector<size_t> all(out_.tensors.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    out_.whole = together(all, true);
  }

 private:
  struct Chunk {
    Range range;
    std::vector<T> values;
    Moments moments;
  };

  bool fits(double bytes) const { return bytes <= static_cast<double>(options_.memory); }

  double bytes_of(const std::vector<size_t>& members) const {
    double sum = 0;
    for (const size_t i : members) sum += static_cast<double>(out_.tensors[i].info.size()) * sizeof(T);
    return sum;
  }

  // All tensors, and one more time the largest set that is put together beside them.
  double bytes_together() const {
    double all = 0, largest = 0;
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      const double bytes = bytes_of({i});
      all += bytes;
      largest = std::max(largest, bytes);
    }
    for (const auto& [key, members] : groups_) largest = std::max(largest, bytes_of(members));
    return all + largest;
  }

  void read_tensor(size_t i) {
    TensorSummary& tensor = out_.tensors[i];
    const uint64_t size = tensor.info.size();
    std::vector<T>& copy = kept_[i];
    tensor.summary.sorted = fits(static_cast<double>(size) * sizeof(T));
    if (tensor.summary.sorted) copy.resize(static_cast<size_t>(size));
    std::optional<ZeroLines> lines = zero_lines(tensor.info);
    const std::unique_ptr<DumpTensor> data = open_tensor(source_, tensor);
    const auto work = [&](Chunk& chunk) {
      in_tensor(tensor.info, [&] { read_values(*data, chunk.range, chunk.values); });
      const std::span<const T> values = chunk.values;
      chunk.moments = {};
      chunk.moments.add(values);
      if (lines) lines->look(chunk.range, values);
      if (!copy.empty()) {
        std::copy(values.begin(), values.end(), copy.begin() + static_cast<ptrdiff_t>(chunk.range.first));
      }
    };
    const auto take = [&](Chunk& chunk) {
      tensor.summary.moments.merge(chunk.moments);
      progress_.done += chunk.range.count * tensor.info.dtype.item_size();
    };
    for_chunks<Chunk>(options_, size, kStatisticsChunk, 1, work, take);
    if (!lines) return;
    tensor.zero_rows = lines->zero_rows();
    tensor.zero_columns = lines->zero_columns();
  }

  std::optional<ZeroLines> zero_lines(const TensorInfo& info) const {
    if (info.shape.size() < 2 || info.size() == 0) return std::nullopt;
    uint64_t columns = 1;
    for (size_t i = 1; i < info.shape.size(); ++i) columns *= info.shape[i];
    if (!fits(static_cast<double>(info.shape[0]) + static_cast<double>(columns))) return std::nullopt;
    return ZeroLines(info.shape[0], columns);
  }

  // Sorts `values`, leaving out what is not finite.
  void finish(Summary& summary, std::vector<T>& values) const {
    if (!summary.sorted) return;
    values.erase(std::remove_if(values.begin(), values.end(), [](T x) { return !std::isfinite(x); }), values.end());
    std::sort(values.begin(), values.end());
    const Moments& moments = summary.moments;
    summary.order = order_statistics(std::span<const T>(values), moments.mean(), moments.deviation());
  }

  // `last`: the tensors' own copies are of no more use.
  Summary together(const std::vector<size_t>& members, bool last) {
    if (members.size() == 1) return out_.tensors[members[0]].summary;
    Summary summary;
    summary.sorted = keeps_;
    std::vector<T> values;
    if (keeps_) values.reserve(static_cast<size_t>(bytes_of(members) / sizeof(T)));
    for (const size_t i : members) {
      summary.moments.merge(out_.tensors[i].summary.moments);
      values.insert(values.end(), kept_[i].begin(), kept_[i].end());
      if (last) kept_[i] = {};
    }
    finish(summary, values);
    return summary;
  }

  Source& source_;
  const StatisticsOptions& options_;
  Progress& progress_;
  DumpStatistics& out_;
  std::vector<std::vector<T>> kept_;  // finite values of each tensor, sorted
  std::map<GroupKey, std::vector<size_t>> groups_;
  bool keeps_ = false;  // all copies until the end
};

}  // namespace

void summarize_values(Source& source, const StatisticsOptions& options, Progress& progress, DumpStatistics& out) {
  if (needs_doubles(out.tensors)) {
    ValuePass<double>(source, options, progress, out).run();
  } else {
    ValuePass<float>(source, options, progress, out).run();
  }
}

}  // namespace gradcodec
