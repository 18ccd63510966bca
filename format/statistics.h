// The statistics of a dump: of each tensor, of all values together, and of what schemes would make of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/checks/histogram.h"
#include "codec/checks/moments.h"
#include "codec/checks/order_statistics.h"
#include "codec/registry.h"
#include "format/dumps/source.h"
#include "format/pipeline.h"

namespace gradcodec {

struct StatisticsOptions {
  std::function<bool(const TensorInfo&)> wanted;  // of the tensors of float types
  std::vector<SchemeChoice> schemes;
  uint64_t seed = 1;  // of the one message that each scheme encodes
  // Side information of a tensor, for schemes that take some.
  std::function<std::shared_ptr<const Tensor>(const TensorInfo&)> side_of = {};
  bool histogram = false;
  unsigned threads = 1;
  uint64_t memory = uint64_t{4} << 30;  // bytes, above all for values to sort
};

// Of a set of values. All are float64 results of the dump's own values: float64 tensors are not narrowed.
struct Summary {
  Moments moments;
  OrderStatistics order;
  bool sorted = false;  // false: the values did not fit into memory, and `order` is absent
};

// Of one message by a scheme. NMSE and what schemes see are of float32 values.
struct SchemeSummary {
  uint64_t values = 0, symbols = 0;
  double symbol_bits = 0;      // order-0 entropy of the symbols, each stream of each tensor with a table of its own
  uint64_t side_bytes = 0;     // stored parameters and exceptions
  uint64_t coded_bytes = 0;    // of the tensors' frames, as compress writes them with its default coder and chunk size
  double error = 0, norm = 0;  // ||x' - x||^2 and ||x||^2, over finite x

  void add(const SchemeSummary& other);
  // In bits; absent where the divisor is 0.
  double entropy_per_symbol() const;
  double entropy_per_value() const;
  double side_per_value() const;
  double coded_per_value() const;
  double nmse() const;  // absent if the norm is 0
};

struct TensorSummary {
  size_t ordinal = 0;  // in the dump
  TensorInfo info;
  Summary summary;
  std::optional<uint64_t> zero_rows,
      zero_columns;                    // rank 2 or more, as shape[0] x the rest; if there are any and they fit
  std::vector<SchemeSummary> schemes;  // as the options'
};

// The tensors of one step and worker of a trace together.
struct GroupSummary {
  std::optional<uint64_t> step, worker;
  uint64_t tensors = 0;
  Summary summary;
};

// Of two workers at one step, over the tensors that both have, in the same shape.
struct WorkerCosine {
  std::optional<uint64_t> step;
  uint64_t first = 0, second = 0;  // workers
  uint64_t values = 0;
  double cosine = kAbsent;
};

inline constexpr size_t kMaxComparedWorkers = 16;

struct DumpStatistics {
  std::vector<TensorSummary> tensors;  // in the dump's order
  Summary whole;
  std::vector<SchemeSummary> schemes;
  std::vector<GroupSummary> groups;  // by step, then worker; empty if the names are no trace's
  std::vector<WorkerCosine> cosines;
  bool workers_left_out = false;  // some step has more than kMaxComparedWorkers: only those with the lowest numbers
  std::optional<Histogram> histogram;
};

// Reads the dump once for the values, once for each scheme (or a little more: preparing reads too), once for cosines
// and once for the histogram. Results do not depend on the number of threads. Throws what reading and schemes throw.
DumpStatistics dump_statistics(Source& source, const StatisticsOptions& options, Progress& progress);

}  // namespace gradcodec
