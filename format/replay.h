// replay: a trace through schemes, step by step, as a training run would send it: every message in bytes, each worker
// with a memory of its own. spec/replay.md says what each figure is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codec/checks/finding.h"
#include "format/trace.h"

namespace gradcodec {

struct ReplayScheme {
  std::string text;  // as it was given
  SchemeChoice choice;
  // The choice for the message that the tensor of the dump belongs to, stored as the same text (AdaQuantFL's levels);
  // empty: the same for all.
  std::function<SchemeChoice(const TensorInfo&)> of_message = {};
};

struct ReplayOptions {
  std::vector<ReplayScheme> schemes;
  CoderPair coders = coders_for_level(kDefaultLevel);
  uint64_t seed = 1;
  uint64_t min_elements = 0;  // tensors of fewer go by raw
  std::optional<Amount> top;  // of sketches: how many elements are taken in a step
  uint64_t candidates = 4;    // of sketches: exact values are asked for of so many times as many
  bool models = false;        // tensors are models: what is sent is how far they went from the last mean
  bool gossip = false;        // or the models themselves, to the neighbours on a ring, each of whom takes the mean
  uint8_t chunk_log2 = kDefaultChunkLog2;
  unsigned threads = 1;
  uint64_t memory = uint64_t{4} << 30;  // bytes for what is remembered and for a step
};

// What the server sends back to each worker.
enum class Downlink : uint8_t { dense, sparse, sum, rounds, gossip };
std::string_view downlink_text(Downlink downlink);

// A scheme at a step. Numbers that are not defined are kAbsent.
struct ReplayRow {
  size_t scheme = 0;
  uint64_t step = 0;
  uint64_t messages = 0;    // workers that are there
  uint64_t up_bytes = 0;    // of all workers together
  uint64_t down_bytes = 0;  // to each worker
  Downlink down = Downlink::dense;
  double worker_nmse = kAbsent;  // mean over workers
  double mean_nmse = kAbsent;    // of the workers' mean
  double cosine = kAbsent;       // of the true mean and the decoded one
  double run_nmse = kAbsent;     // of the sum of the means up to here
  double memory_norm = kAbsent;  // mean over workers; absent if the scheme remembers nothing
  uint64_t checked = 0;          // chunks that have a check of their side information
  uint64_t failures = 0;         // those whose side information was too far
  uint64_t wrong = 0;            // values that became others for that
};

// Of a scheme, over steps.
struct ReplayTotal {
  uint64_t steps = 0, messages = 0, values = 0;  // values: of all messages
  uint64_t up_bytes = 0;                         // of all workers and steps
  uint64_t down_bytes = 0;                       // to all workers that were there, of all steps
  uint64_t checked = 0, failures = 0, wrong = 0;
  double worker_nmse = kAbsent, mean_nmse = kAbsent, cosine = kAbsent, memory_norm = kAbsent;  // means over steps
  double run_nmse = kAbsent;                                                                   // at the last step
  std::set<Downlink> downs;

  double up_bits() const;    // a value of a message
  double down_bits() const;  // likewise
};

class Way;

class Replay {
 public:
  // The trace outlives it. Throws Error: usage (a scheme that cannot be replayed), limit (what is remembered, or a
  // step, takes more than the options' memory).
  Replay(Trace& trace, ReplayOptions options);
  ~Replay();

  // Takes the rows, step by step, schemes in order. Memory: one step's values, and what is remembered. Deterministic
  // for any number of threads. Throws Error naming scheme, step, worker and tensor.
  void run(const std::function<void(const ReplayRow&)>& take, Progress& progress);

  // Of all rows so far; one a scheme.
  std::vector<ReplayTotal> totals() const;

  // What the schemes warned of, and what a user should know of how they are replayed: scheme and text.
  const std::set<std::pair<size_t, std::string>>& notes() const { return notes_; }

 private:
  struct Sums;
  struct Means;

  void check_memory() const;
  bool read(size_t at, struct ReplayStep& step, Means& means);
  void send(size_t scheme, const struct ReplayStep& step, const Means& means,
            const std::function<void(const ReplayRow&)>& take);
  ReplayRow figures(size_t scheme, const struct ReplayStep& step, const struct Sent& sent, const Means& means);

  Trace& trace_;
  ReplayOptions options_;
  std::vector<std::unique_ptr<Way>> ways_;
  std::vector<Sums> sums_;
  std::vector<std::vector<double>> run_, last_models_;  // by tensor: sums of the true means; the mean of models before
  std::set<std::pair<size_t, std::string>> notes_;
};

}  // namespace gradcodec
