// SPDX-License-Identifier: Apache-2.0
#include "codec/buckets.h"

#include <vector>

namespace gradcodec {

bool has_tiny_bucket(const Tensor& tensor, const Chunks& chunks, uint64_t bucket) {
  constexpr float kSmall = 0x1p-100F;
  bool found = false;
  std::vector<float> room;
  for (uint64_t i = 0; i < chunks.count() && !found; ++i) {
    const Range range = chunks[i];
    room.resize(std::max(room.size(), static_cast<size_t>(range.count)));
    const std::span<const float> x = tensor.read(range, room);
    for_each_bucket(range.count, bucket, [&](uint64_t, size_t at, size_t count) {
      const float max = extent_of(x.subspan(at, count)).max;
      found |= max > 0 && max < kSmall;
    });
  }
  return found;
}

}  // namespace gradcodec
