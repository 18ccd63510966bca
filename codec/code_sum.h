// Codes of one tensor in several messages, added up without being decoded: the integers of a quantizer with one step
// for all, the values at places that all share, or the tables of sketches. What stands over them (a subset, a rotation)
// is linear, and the same in all messages, so that it stands over the sum too. spec/aggregate.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/scheme.h"
#include "codec/sketch.h"
#include "codec/summable.h"

namespace gradcodec {

// The stored text of the scheme that sums of messages of `choice` have; nothing if they do not add up. Only messages
// with the same text for a tensor go together.
std::optional<std::string> sum_text(const SchemeChoice& choice);

// Of a choice of such a text, if it draws: whether its messages must be of one step, and not of one seed alone.
// Sketches whose hashes are the run's add up over steps.
bool sum_is_of_step(const SchemeChoice& sum);

// A chunk's sum on its way; used again from chunk to chunk.
struct ChunkSum {
  bool any = false;  // something was added since CodeSum::begin
  std::vector<int32_t> symbols;
  std::vector<double> values;
};

// Something about a message that does not go with those before it, thrown by CodeSum for its caller to say which.
struct Misfit {
  Exit code;
  std::string text;
};

// The sum of one tensor: every message joins, and each of its chunks is added once it has; then it is closed. Of
// messages whose schemes have one sum_text.
class CodeSum {
 public:
  explicit CodeSum(bool mean) : mean_(mean) {}  // it decodes to the mean, else to the sum

  // A message that counts `weight` times, at least once. A table is added here, and not looked at any more. Throws
  // Misfit.
  void join(const Decoder& decoder, uint64_t weight);

  static void begin(ChunkSum& sum) { sum.any = false; }

  // Adds `code`, of the chunk `range` of a message that has joined with that weight; `decoder`, the message's, has
  // decoded it. Any order gives the same integers; values are float64, added in the order of the calls. Thread-safe.
  // Throws Misfit.
  void add(const Decoder& decoder, uint64_t weight, const Code& code, Range range, ChunkSum& sum) const;

  // Once all have joined: the tensor's parameters, as those of the scheme of sum_text. Throws Misfit about the last to
  // join if float32, or a cell, does not hold what they add up to.
  Bytes stored() const;

  // The code of a chunk's sum, for that scheme. Throws Error(limit) if float32 does not hold a value of it.
  void finish(const ChunkSum& sum, Code& code) const;

 private:
  Summands total() const;
  void join_table(const Table& table, uint64_t weight);

  bool mean_, any_ = false;
  size_t outer_ = 0;  // schemes over the sum
  Bytes outer_params_;
  std::optional<TableSum> tables_;
  Summands summands_;  // of those that have joined
};

}  // namespace gradcodec
