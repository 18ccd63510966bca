// A trace: a dump that holds the gradients of several training steps, or of several workers, under names that say
// which. spec/replay.md, "Traces".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/dumps/source.h"
#include "format/worker_link.h"

namespace gradcodec {

// How names are made: literal text with {step} and {worker}, which are numbers below 10^18, and {param}, which is any
// text; each at most once.
class TraceLayout {
 public:
  // Throws Error(usage) on text that has neither {step} nor {worker}, or that could take a name apart in two ways.
  static TraceLayout parse(std::string_view text);

  // From the first of the names that has a step or a worker, as parse_trace_name finds them; nothing if none has.
  static std::optional<TraceLayout> guess(const std::vector<TensorInfo>& tensors);

  struct Name {
    uint64_t step = 0, worker = 0;  // 0 where the layout has none
    std::string param;              // "array" where the layout has none
  };
  std::optional<Name> match(std::string_view name) const;

  const std::string& text() const { return text_; }
  bool has_step() const { return has(Part::step); }
  bool has_worker() const { return has(Part::worker); }

 private:
  struct Part {
    enum Kind : uint8_t { literal, step, worker, param } kind = literal;
    std::string text = {};
  };
  bool has(Part::Kind kind) const;
  void check() const;

  std::string text_;
  std::vector<Part> parts_;
};

struct TraceOptions {
  std::string layout;  // empty: guessed
  uint64_t first_step = 0, last_step = std::numeric_limits<uint64_t>::max();
  bool drop = false;  // leave out what does not fit, instead of refusing the trace
};

class Trace {
 public:
  // Throws Error: usage (names that do not fit the layout, nothing to replay), bad_input (a tensor that is not the same
  // at each step and worker).
  Trace(std::unique_ptr<Source> source, const TraceOptions& options);

  const Source& source() const { return *source_; }
  const TraceLayout& layout() const { return layout_; }
  const std::vector<std::string>& left_out() const { return left_out_; }  // what, in sentences

  // The tensors of each message, as float32: those of the first message, in the dump's order.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  uint64_t values() const;  // of all of them

  size_t steps() const { return steps_.size(); }
  uint64_t step(size_t at) const { return steps_[at].number; }
  const std::vector<uint64_t>& workers() const { return workers_; }  // that are there at some step, rising
  // Of those, which are there at that step: their places in workers(), rising.
  std::vector<size_t> workers_at(size_t step) const;

  // Of the message of that step and the place of a worker that is there.
  TensorValues read(size_t step, size_t worker);
  const TensorInfo& first_tensor(size_t step, size_t worker) const;  // as it stands in the dump
  const TensorInfo& first_tensor() const;                            // of the dump's first step, replayed or not

 private:
  struct Cell {
    size_t worker = 0;
    std::vector<size_t> ordinals;  // in the source, one for each of tensors_
  };
  struct Step {
    uint64_t number = 0;
    std::vector<Cell> cells;  // by worker
  };
  class Builder;

  const Cell& cell(size_t step, size_t worker) const;

  std::unique_ptr<Source> source_;
  TraceLayout layout_;
  std::vector<std::string> left_out_;
  std::vector<TensorInfo> tensors_;
  std::vector<Step> steps_;
  std::vector<uint64_t> workers_;
  size_t first_ = 0;
};

}  // namespace gradcodec
