// Random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), addressed by
// what they are for. Any element's number can be computed alone, in any order. spec/random.md is the definition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "codec/kernels/kernels.h"

namespace gradcodec {

// What a draw is for; one byte of the counter. The numbers are on disk in effect: never reuse one.
enum class Purpose : uint8_t {
  rounding = 1,
  narrowing = 2,
  subset = 3,
  rotation = 4,
  cell = 5,
  hash = 6,
  fill = 7,
  start = 8,
};

// Position of a part in a composition of schemes, given by whoever composes. Two stages never share a draw.
inline constexpr uint8_t kFirstStage = 0;
inline constexpr uint8_t kNarrowingStage = 255;

// Ten rounds of Philox4x32.
std::array<uint32_t, 4> philox(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter);

inline constexpr uint64_t kMostWorkers = uint64_t{1} << 32;

// What a message's keys are made of. `worker` is below kMostWorkers.
struct MessageId {
  uint64_t seed = 0;
  std::optional<uint64_t> worker, step;
};

// The message key: the seed itself if neither worker nor step is given, else the first two words of
// philox(key = seed, counter = {step low, step high, worker, kMessageScope}), the one not given counting as 0.
std::array<uint32_t, 2> message_key(const MessageId& id);

// The key of what the workers of a step share: the first two words of philox(key = seed, counter = {step low, step
// high, 0, kStepScope}), no step counting as 0.
std::array<uint32_t, 2> step_key(const MessageId& id);

// The random numbers of one tensor of one message.
class Random {
 public:
  // `ordinal`: the tensor's place among all tensors of the file, in stored order.
  Random(const MessageId& id, uint32_t ordinal)
      : key_(message_key(id)), step_key_(step_key(id)), run_key_(message_key({id.seed, {}, {}})), ordinal_(ordinal) {}

  // Word i of the result's stream is the draw of coordinate i of the tensor that the stage receives.
  kernels::Draws draws(Purpose purpose, uint8_t stage, uint16_t sub = 0) const;

  // The same of the step: equal for all its workers.
  kernels::Draws shared_draws(Purpose purpose, uint8_t stage, uint16_t sub = 0) const;

  // The same with the seed for key: equal for all messages of a run.
  kernels::Draws run_draws(Purpose purpose, uint8_t stage, uint16_t sub = 0) const;

 private:
  std::array<uint32_t, 2> key_, step_key_, run_key_;
  uint32_t ordinal_;
};

}  // namespace gradcodec
