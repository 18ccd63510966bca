// aggregate: many messages with the same tensors, read in step, frame by frame, and added up. spec/aggregate.md is the
// definition of what comes out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/dumps/sink.h"
#include "format/index_set.h"
#include "format/pipeline.h"
#include "format/reader.h"
#include "format/side_info.h"
#include "format/writer.h"

namespace gradcodec {

struct AggregateOptions {
  bool mean = true;                           // else the sum
  std::vector<double> weights;                // one an input, each above 0; empty: 1 each
  bool exact = false;                         // symbols are added, not values (the tables of sketches always are)
  std::optional<DType> dtype;                 // of float tensors, instead of their own
  std::shared_ptr<const SideInfo> side = {};  // for messages that are decoded with side information
  std::shared_ptr<const IndexSet> set = {};   // that all messages answer, if they answer one
  unsigned threads = 1;
  uint64_t memory = uint64_t{4} << 30;  // bytes for the chunks at work
};

class Aggregator {
 public:
  // Opens the files ("-" is standard input, at most once), reads all that stands before their frames, and checks that
  // they have the same tensors and chunks and can be decoded by themselves. Throws Error naming the file: bad_input
  // (also for files that do not go together), unsupported, limit, io, usage (also, if options.exact, for what does not
  // add up).
  Aggregator(const std::vector<std::string>& paths, AggregateOptions options);
  // Of files that are open.
  Aggregator(const std::vector<std::shared_ptr<const RandomFile>>& files, AggregateOptions options);
  ~Aggregator();

  const Schema& schema() const;  // of the first, whose tensors are those of all

  // What HDF5 holds beside tensors; empty unless it is the same in all. `differs`: it is not.
  const Bytes& tree(bool& differs) const;

  // For an OutputFile: none of them may be replaced.
  std::vector<Origin> origins() const;

  const IndexSet* set() const { return options_.set.get(); }

  // Tensors that are sketched, and whose tables cannot be added, as they have other hashes or rows: values are.
  const std::vector<std::string>& sketches_apart() const { return apart_; }

  // For each message key that several inputs share, "'a', 'b' and 3 more": their rounding draws are the same. None if
  // all that is drawn are the hashes of sketches, which are to be shared.
  std::vector<std::string> shared_keys() const;

  // Reads all inputs to their ends with every check there is, and gives `sink`, which the caller finishes, the
  // elements. Throws Error naming file and tensor: bad_input, limit (a value that float32, or the type, does not hold).
  void run(Sink& sink, Progress& progress);

  // The schema and the header of the sum's file, if options.exact, and then its frames.
  Schema sum_schema(const CoderPair& coders) const;
  Message sum_message() const;
  void run(FrameWriter& writer, const CoderPair& coders, Progress& progress);

 private:
  struct Input;
  class Job;

  void open(std::unique_ptr<Input> input);
  void check_beside(const Input& input) const;
  void check_same(const Input& input) const;
  void check_adds_up() const;
  void find_tables();
  std::optional<std::string> common_sum(size_t tensor) const;
  const Input* of_other_draws(const SchemeChoice& sum) const;

  AggregateOptions options_;
  std::vector<std::unique_ptr<Input>> inputs_;
  std::vector<bool> tables_;  // of each tensor, whether the tables of sketches are added
  std::vector<std::string> apart_;
};

}  // namespace gradcodec
