// What spec/rounds.md says server and workers send each other, in memory: sketches, index sets, answers to them. All of
// one tensor, in which the parameters of all layers stand one after another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "codec/sketch.h"
#include "format/index_set.h"
#include "tools/train/workers.h"

namespace gradcodec::train {

inline constexpr uint64_t kRoundMemory = uint64_t{4} << 30;

std::vector<TensorInfo> one_tensor(const Network& network);
void flatten(const TensorValues& values, std::vector<float>& out);
TensorValues unflatten(std::span<const float> values, const std::vector<TensorInfo>& tensors);

// The table of a message of countsketch.
Table read_table(const std::shared_ptr<const RandomFile>& message);

// The places of the `count` heaviest, rising; of equal ones the lower place stands first.
std::vector<uint64_t> heaviest(std::span<const float> values, uint64_t count);

// A message and its reader's view of it.
struct SetMessage {
  double bits = 0;
  IndexSet set;  // as it was read
  const std::vector<uint64_t>& places() const { return *set.tensors.front().places; }
};
SetMessage send_set(const TensorInfo& info, std::vector<uint64_t> places, uint64_t step);

// The exact values of `values` at the places of a set, by a message of scheme `at`; what its reader has of them.
struct Answer {
  double bits = 0;
  std::vector<float> values;  // in the order of the places
};
Answer send_answer(const TensorInfo& info, const std::vector<float>& values, const IndexSet& set, MessageId id);

}  // namespace gradcodec::train
