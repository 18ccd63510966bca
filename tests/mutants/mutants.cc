// SPDX-License-Identifier: Apache-2.0
#include "mutants/mutants.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codec/kernels/rounding.h"

namespace gradcodec {
namespace {

int32_t clamped(float q, float max_level) { return static_cast<int32_t>(std::clamp(q, -max_level, max_level)); }

int32_t round_to_nearest(float x, float, float step, float max_level) {
  return kernels::round_float32(x, 0.5F, step, max_level);
}

int32_t round_scaled(float x, float v, float step, float max_level) {
  return kernels::round_float32(1.01F * x, v, step, max_level);
}

// Dither from 0 to 1, where the decoder's is from -1/2 to 1/2.
int32_t round_one_sided(float x, float v, float step, float max_level) {
  return clamped(std::floor(x / step + v + 0.5F), max_level);
}

int32_t floor_for_round(float x, float v, float step, float max_level) {
  return clamped(std::floor(x / step + (v - 0.5F)), max_level);
}

// To half steps first, then to steps, both with the same draw.
int32_t round_twice(float x, float v, float step, float max_level) {
  const float half = step / 2;
  const int32_t fine = kernels::round_float32(x, v, half, 2 * max_level);
  return kernels::round_float32(static_cast<float>(fine) * half, v, step, max_level);
}

float restore_multiple(int32_t q, float, float step) { return static_cast<float>(q) * step; }

float restore_multiple_scaled(int32_t q, float v, float step) { return 1.01F * restore_multiple(q, v, step); }

float restore_dithered_scaled(int32_t q, float v, float step) { return 1.01F * kernels::restore(q, v, step); }

Mutation worker_ignored(uint64_t seed) {
  const auto key = message_key({seed, {}, {}});
  return {.draws = [key](kernels::Draws draws) {
    draws.key = key;
    return draws;
  }};
}

}  // namespace

std::vector<Mutant> mutants(uint64_t seed) {
  const bool yes = true, no = false;
  return {
      {"decoder scale +1 %", {.restore = restore_multiple_scaled}, yes, no, {"support"}},
      {"decoder scale +1 %", {.restore = restore_dithered_scaled}, no, yes, {"support"}},
      {"encoder scale +1 %", {.round = round_scaled}, yes, yes, {"linear x", "linear x/var", "support"}},
      {"stored scale 0.99 max", {.step = [](float step) { return 0.99F * step; }}, yes, yes, {"overload"}},
      {"no dither", {.round = round_to_nearest}, yes, no, {"bias overall", "variance"}},
      {"no dither", {.round = round_to_nearest, .restore = restore_multiple}, no, yes, {"bias overall", "variance"}},
      {"dither not subtracted", {.restore = restore_multiple}, no, yes, {"support", "variance"}},
      {"one-sided dither", {.round = round_one_sided}, yes, yes, {"support", "linear 1", "bias overall"}},
      {"floor for round", {.round = floor_for_round}, yes, yes, {"support", "linear 1", "bias overall"}},
      {"top 10 %", {.kept = 0.1}, yes, yes, {"bias overall", "linear x", "support"}},
      {"dither reused",
       {.coordinate = [](uint64_t index) { return index % 4096; }},
       yes,
       yes,
       {"lag 4096"}},  // chunks of as many
      {"worker ignored", worker_ignored(seed), yes, yes, {"bias overall"}},
      {"two stages, one draw", {.round = round_twice}, yes, no, {"linear x", "bias overall"}},
      {"one word for four", {.coordinate = [](uint64_t index) { return index / 4 * 4; }}, yes, yes, {"lag 1"}},
  };
}

Mutation ordinal_ignored() {
  return {.draws = [](kernels::Draws draws) {
    draws.ordinal = 0;
    return draws;
  }};
}

Mutation shortest_of(uint16_t attempts) { return {.attempts = attempts}; }

Mutation reciprocal() { return {.round = round_by_reciprocal}; }

Mutation narrow_dither() {
  return {.draw = [](uint32_t word, uint64_t) { return 0.25F + kernels::draw_v(word) / 2; }};
}

Mutation coarse_dither() {
  return {.draw = [](uint32_t word, uint64_t) { return (static_cast<float>(word >> 24) + 0.5F) / 256; }};
}

Mutation last_not_dithered() {
  return {.draw = [](uint32_t word, uint64_t index) { return index % 65536 == 65535 ? 0.5F : kernels::draw_v(word); }};
}

Mutation bucket_restarts() {
  return {.coordinate = [](uint64_t index) { return index % 100; }};
}

Mutation misreports() { return {.misreports = true}; }

Mutation overclaims(double omega) { return {.omega = omega}; }

Mutation bfloat16_step() {
  const auto rounded = [](float step) {
    const uint32_t bits = std::bit_cast<uint32_t>(step);
    return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
  };
  return {.step = rounded, .rounds_to_stored_step = false};
}

int32_t round_by_reciprocal(float x, float v, float step, float max_level) {
  const float a = std::min(std::fabs(x * (1.0F / step)), max_level);
  const float k = std::floor(a), g = a - k;
  const float level = g > (x >= 0 ? 1.0F - v : v) ? k + 1 : k;
  const auto magnitude = static_cast<int32_t>(level);
  return x >= 0 ? magnitude : -magnitude;
}

}  // namespace gradcodec
