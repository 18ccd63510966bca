// How the messages of a step go from the workers to the server and back under one scheme: what replay knows of schemes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/ordered.h"
#include "format/replay.h"

namespace gradcodec {

// What the workers that are there send: everything is by place among them, in the order of their numbers.
struct ReplayStep {
  uint64_t number = 0;
  std::vector<size_t> workers;  // places among the trace's workers
  std::vector<TensorValues> values;
  std::vector<const TensorInfo*> origins;  // a tensor of the message, as it stands in the dump

  size_t size() const { return workers.size(); }

  // Places among them of the neighbours of worker i, on the ring of those that are there: two, or fewer if there are
  // fewer others.
  std::vector<size_t> neighbours(size_t i) const;
};

struct Sent {
  std::vector<TensorValues> decoded;        // of each worker's message
  uint64_t up_bytes = 0;                    // of all workers together
  uint64_t up_extra = 0;                    // likewise, beside their messages
  uint64_t down_extra = 0;                  // to each worker, beside the mean
  std::optional<uint64_t> down_bytes = {};  // to each worker, instead of the mean by its values
  Downlink down = Downlink::dense;
  uint64_t checked = 0, failures = 0, wrong = 0;  // chunks; values: by their side information
  std::vector<std::string> notes;
};

class Way {
 public:
  // Outlived by all of them.
  Way(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace)
      : scheme_(scheme), options_(options), trace_(trace) {}
  virtual ~Way() = default;
  virtual Sent send(const ReplayStep& step) = 0;
  virtual double memory_norm() const { return kAbsent; }
  virtual bool takes_top() const { return false; }

 protected:
  const std::vector<TensorInfo>& tensors() const { return trace_.tensors(); }
  bool is_coded(size_t tensor) const { return tensors()[tensor].size() >= options_.min_elements; }
  WorkerLink::Options link_options(const SchemeChoice& scheme, size_t worker) const;

  // f(i) for each worker of the step, by several threads; what it throws says which worker.
  template <typename F>
  void each(const ReplayStep& step, F f) const;

  const ReplayScheme& scheme_;
  const ReplayOptions& options_;
  const Trace& trace_;
};

// f(i) for i below count, by several threads, the earliest exception if there are some.
template <typename F>
void for_each_index(unsigned threads, size_t count, F f) {
  size_t next = 0;
  struct Item {
    size_t i = 0;
  };
  const auto crew = static_cast<unsigned>(std::min<size_t>(std::max(1U, threads), count));
  run_ordered<Item>(
      crew, 2 * static_cast<size_t>(crew),
      [&](Item& item) {
        item.i = next++;
        return item.i < count;
      },
      [&](Item& item) { f(item.i); }, [](Item&) {});
}

template <typename F>
void Way::each(const ReplayStep& step, F f) const {
  for_each_index(options_.threads, step.size(), [&](size_t i) {
    try {
      f(i);
    } catch (const Error& error) {
      throw Error(error.code(), "worker " + std::to_string(trace_.workers()[step.workers[i]]) + ": " + error.what());
    }
  });
}

// The way of a scheme. Throws Error(usage) if it has none.
std::unique_ptr<Way> way_of(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace);

std::unique_ptr<Way> nested_way(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace);
std::unique_ptr<Way> sketch_way(const ReplayScheme& scheme, const ReplayOptions& options, const Trace& trace);

}  // namespace gradcodec
