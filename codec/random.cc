// SPDX-License-Identifier: Apache-2.0
#include "codec/random.h"

#include "codec/error.h"
#include "codec/kernels/philox.h"

namespace gradcodec {
namespace {

// Counter word 3 of a message's key, "msg1" in ASCII. No draw can have it: its purpose byte, 's', is none of ours.
constexpr uint32_t kMessageScope = 0x6D736731;
constexpr uint32_t kStepScope = 0x73746531;  // "ste1": likewise

uint32_t tag_of(Purpose purpose, uint8_t stage, uint16_t sub) {
  return uint32_t{stage} << 24 | uint32_t{static_cast<uint8_t>(purpose)} << 16 | sub;
}

std::array<uint32_t, 2> words_of(uint64_t value) {
  return {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter) {
  return kernels::philox4x32(key, counter);
}

std::array<uint32_t, 2> message_key(const MessageId& id) {
  const auto seed = words_of(id.seed);
  if (!id.worker && !id.step) return seed;
  const uint64_t worker = id.worker.value_or(0);
  if (worker >> 32 != 0) throw Error(Exit::bug, "worker " + std::to_string(worker) + " is 2^32 or more");
  const auto step = words_of(id.step.value_or(0));
  const auto words = philox(seed, {step[0], step[1], static_cast<uint32_t>(worker), kMessageScope});
  return {words[0], words[1]};
}

std::array<uint32_t, 2> step_key(const MessageId& id) {
  const auto step = words_of(id.step.value_or(0));
  const auto words = philox(words_of(id.seed), {step[0], step[1], 0, kStepScope});
  return {words[0], words[1]};
}

kernels::Draws Random::draws(Purpose purpose, uint8_t stage, uint16_t sub) const {
  return {key_, ordinal_, tag_of(purpose, stage, sub)};
}

kernels::Draws Random::shared_draws(Purpose purpose, uint8_t stage, uint16_t sub) const {
  return {step_key_, ordinal_, tag_of(purpose, stage, sub)};
}

kernels::Draws Random::run_draws(Purpose purpose, uint8_t stage, uint16_t sub) const {
  return {run_key_, ordinal_, tag_of(purpose, stage, sub)};
}

}  // namespace gradcodec
