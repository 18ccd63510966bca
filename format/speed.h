// How fast schemes and coders are on this machine, beside memcpy of the same bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codec/registry.h"
#include "format/pipeline.h"

namespace gradcodec {

struct SpeedOptions {
  std::vector<SchemeChoice> schemes;
  std::vector<const Coder*> coders;
  uint64_t seed = 1;
  unsigned threads = 1, repeats = 5;
  uint64_t memory = uint64_t{4} << 30;  // bytes, the input's among them
};

// Bytes of float32 input a second, of the rounds; 10^9 to the GB.
struct Rate {
  double median = 0, least = 0, most = 0;
  double spread() const { return (most - least) / (2 * median); }  // half the width, as a part of the median
};

// One scheme with one coder.
struct SpeedRow {
  size_t scheme = 0, coder = 0;  // in the options
  std::optional<Rate> prepare;   // one thread, whatever their number, as in compress; absent where nothing is prepared
  Rate encode, decode;
  uint64_t coded_bytes = 0;    // of the frames, heads and checks and stored parameters included
  double symbol_bits = 0;      // order-0 entropy of the symbols, each stream with one table
  std::optional<double> nmse;  // ||x' - x||^2 / ||x||^2 over finite values
};

struct Speed {
  Rate copy;                         // memcpy by one thread
  std::optional<Rate> copy_threads;  // by options.threads, if more than one
  std::vector<SpeedRow> rows;        // scheme by scheme

  const Rate& copy_alike() const { return copy_threads ? *copy_threads : copy; }  // by as many threads as the rows
};

// Sends `input` (at least one value) as one tensor through what compress and decompress do between files, once to
// measure sizes and errors and to touch all memory, then `repeats` times (at least 1) by the clock; each round has
// memcpy and every combination once, so that drift hits all alike. Encoding makes the decoded values, their digest and
// the frames, decoding checks both and writes the values to memory. Calls progress.done once a combination and round.
// Throws Error(limit) if `memory` is too little, Error(bug) if a tensor's digests differ, and what schemes throw.
Speed measure_speed(std::span<const float> input, const SpeedOptions& options, Progress& progress);

// Throws Error(limit) if measure_speed for `size` values, the input included, takes more than `memory` bytes.
void check_speed_memory(uint64_t size, uint64_t memory);

}  // namespace gradcodec
