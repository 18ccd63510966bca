// How much the workers of a trace agree: the cosine between each two of one step.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "codec/checks/products.h"
#include "format/statistics_parts.h"
#include "format/trace_names.h"

namespace gradcodec {
namespace {

using Step = std::optional<uint64_t>;
using Pair = std::pair<uint64_t, uint64_t>;  // workers, the lower number first

struct PairTotals {
  PairSums sums;
  uint64_t values = 0;
};

// What the workers of one step have under one name and in one shape: tensors by worker.
using Shared = std::map<uint64_t, size_t>;
struct StepTensors {
  std::set<uint64_t> workers;
  std::map<std::pair<std::string, std::vector<uint64_t>>, Shared> shared;
};

std::map<Step, StepTensors> find_steps(const std::vector<TensorSummary>& tensors) {
  std::map<Step, StepTensors> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TraceName name = parse_trace_name(tensors[i].info.name);
    if (!name.worker) continue;
    StepTensors& step = out[name.step];
    step.workers.insert(*name.worker);
    step.shared[{name.rest, tensors[i].info.shape}].emplace(*name.worker, i);
  }
  return out;
}

// The same chunk of each worker, and the products of each two, a triangle by rows.
template <typename T>
struct Rows {
  Range range;
  std::vector<std::vector<T>> values;
  std::vector<double> products;
};

template <typename T>
class WorkerPass {
 public:
  WorkerPass(Source& source, const StatisticsOptions& options, const std::vector<TensorSummary>& tensors)
      : source_(source), options_(options), tensors_(tensors) {}

  void run(const Shared& shared, std::map<Pair, PairTotals>& totals) {
    std::vector<std::unique_ptr<DumpTensor>> data;
    std::vector<uint64_t> workers;
    for (const auto& [worker, tensor] : shared) {
      data.push_back(open_tensor(source_, tensors_[tensor]));
      workers.push_back(worker);
    }
    const TensorInfo& info = tensors_[shared.begin()->second].info;
    const auto multiply = [&](Rows<T>& rows) {
      rows.values.resize(data.size());
      for (size_t i = 0; i < data.size(); ++i)
        in_tensor(info, [&] { read_values(*data[i], rows.range, rows.values[i]); });
      rows.products.clear();
      for (size_t i = 0; i < data.size(); ++i) {
        for (size_t j = 0; j <= i; ++j) {
          rows.products.push_back(
              inner_product(std::span<const T>(rows.values[i]), std::span<const T>(rows.values[j])));
        }
      }
    };
    const auto at = [](size_t i, size_t j) { return i * (i + 1) / 2 + j; };
    const auto take = [&](Rows<T>& rows) {
      for (size_t i = 0; i < workers.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          PairTotals& pair = totals[{workers[j], workers[i]}];
          pair.sums.ab.add(rows.products[at(i, j)]);
          pair.sums.aa.add(rows.products[at(j, j)]);
          pair.sums.bb.add(rows.products[at(i, i)]);
          pair.values += rows.range.count;
        }
      }
    };
    constexpr uint64_t kPiece = uint64_t{1} << 14;  // sixteen of them stay in a core's cache
    for_chunks<Rows<T>>(options_, info.size(), kPiece, workers.size(), multiply, take);
  }

 private:
  Source& source_;
  const StatisticsOptions& options_;
  const std::vector<TensorSummary>& tensors_;
};

// Keeps the workers with the lowest numbers. True if there are more.
bool limit_workers(StepTensors& step) {
  if (step.workers.size() <= kMaxComparedWorkers) return false;
  const uint64_t beyond = *std::next(step.workers.begin(), kMaxComparedWorkers);
  step.workers.erase(step.workers.find(beyond), step.workers.end());
  for (auto& [name, shared] : step.shared) shared.erase(shared.lower_bound(beyond), shared.end());
  return true;
}

template <typename T>
void compare(WorkerPass<T> pass, DumpStatistics& out) {
  for (auto& [step, tensors] : find_steps(out.tensors)) {
    out.workers_left_out |= limit_workers(tensors);
    std::map<Pair, PairTotals> totals;
    for (const uint64_t first : tensors.workers) {
      for (auto second = tensors.workers.upper_bound(first); second != tensors.workers.end(); ++second) {
        totals[{first, *second}];
      }
    }
    for (const auto& [name, shared] : tensors.shared) {
      if (shared.size() > 1) pass.run(shared, totals);
    }
    for (const auto& [pair, total] : totals) {
      out.cosines.push_back({step, pair.first, pair.second, total.values, total.sums.cosine()});
    }
  }
}

}  // namespace

void compare_workers(Source& source, const StatisticsOptions& options, DumpStatistics& out) {
  if (needs_doubles(out.tensors)) {
    compare(WorkerPass<double>(source, options, out.tensors), out);
  } else {
    compare(WorkerPass<float>(source, options, out.tensors), out);
  }
}

}  // namespace gradcodec
