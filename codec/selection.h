// Which k of a tensor's elements have the smallest keys, without a list of them: the key of the last, and how many are
// taken from each chunk. Of equal keys those of lower place go first, so that the choice is one for all machines and
// numbers of threads. Top-k takes for key how far a magnitude is from the largest there is, random-k a random word.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "codec/scheme.h"

namespace gradcodec {

// The keys of a chunk, as many as its elements: in `room`, or in memory that stays as long. From several threads.
using KeyReader = std::function<std::span<const uint32_t>(Range chunk, std::span<uint32_t> room)>;

struct Selection {
  uint32_t last = 0;           // keys below it are taken, those above are not, of its equals the first of each chunk
  std::vector<uint64_t> kept;  // how many of each chunk
};

// The `count` smallest of `size` (count at most size), chunks as `inputs` has them. Four passes over the keys, each by
// inputs.loop; memory is bounded but for `kept`.
Selection select_smallest(uint64_t size, uint64_t count, const KeyReader& keys, const Inputs& inputs);

// A chunk's selected places, into `places` in rising order. False if there are not `kept` keys that a selection could
// have taken: `kept` is less than are below `last`, or more than these and its equals.
bool list_selected(std::span<const uint32_t> keys, uint32_t last, uint64_t kept, std::vector<uint32_t>& places);

// How many keys are at most `last`.
uint64_t count_up_to(std::span<const uint32_t> keys, uint32_t last);

// Keys that fall as the magnitude rises: 0x7FFFFFFF less the bits without sign. What is not regular counts as 0.
inline uint32_t magnitude_key(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x) & 0x7FFFFFFF;
  return 0x7FFFFFFF - (bits > kernels::kMaxRegularBits ? 0 : bits);
}
void magnitude_keys(std::span<const float> x, std::span<uint32_t> keys);
KeyReader magnitude_keys_of(const Tensor& tensor);  // which must outlive it

}  // namespace gradcodec
