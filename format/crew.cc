// SPDX-License-Identifier: Apache-2.0
#include "format/crew.h"

#include <algorithm>

#include "format/frame_walk.h"

namespace gradcodec {

Crew crew_for(const Schema& schema, unsigned threads, uint64_t memory, bool whole) {
  uint64_t cost = 1;
  for (const SchemaTensor& tensor : schema.tensors) {
    const uint64_t len = whole ? tensor.info.size() : std::min(tensor.info.size(), schema.chunk_len(tensor));
    // Elements as bytes and once more on their way, float32 values twice, symbols, a payload of two bytes at most.
    const uint64_t item = tensor.info.dtype.item_size();
    cost = std::max(cost, item == 0 ? 1 : len * (2 * item + 12));
  }
  if (cost > memory) {
    throw Error(Exit::limit,
                "a chunk takes about " + std::to_string(cost) + " bytes of memory to work on: raise --memory");
  }
  const uint64_t frames = std::max<uint64_t>(1, total_frames(schema));
  const auto used = static_cast<unsigned>(std::min<uint64_t>(threads, frames));
  return {used, static_cast<size_t>(std::clamp<uint64_t>(memory / cost, 1, 3 * uint64_t{used}))};
}

}  // namespace gradcodec
