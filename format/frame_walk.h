// Which frame comes when: the order of frames that both directions follow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "format/layout.h"

namespace gradcodec {

// A frame's place. Tensors stand in the schema's order. A tensor of one chunk has one frame, with its stored parameters
// in front; one of several has a frame of parameters and then its chunks.
struct FramePlace {
  size_t tensor = 0;
  bool params_only = false;
  uint64_t chunk = 0, chunks = 0;
  Range range;  // empty if params_only

  bool has_params() const { return params_only || chunks == 1; }
  bool ends_tensor() const { return !params_only && chunk + 1 == chunks; }
  std::string text() const {
    return params_only ? "parameters" : "chunk " + std::to_string(chunk + 1) + " of " + std::to_string(chunks);
  }
};

class FrameWalk {
 public:
  // `whole`: each tensor is one chunk, whatever the schema's chunk size.
  explicit FrameWalk(const Schema& schema, bool whole = false) : schema_(schema), whole_(whole) {}

  bool next(FramePlace& place) {
    if (tensor_ == schema_.tensors.size()) return false;
    const SchemaTensor& tensor = schema_.tensors[tensor_];
    const uint64_t size = tensor.info.size();
    const uint64_t len = chunk_len(tensor_);
    place = {tensor_, false, chunk_, chunk_count(size, len), {}};
    if (place.chunks > 1 && !params_done_) {
      place.params_only = params_done_ = true;
      return true;
    }
    place.range = {chunk_ * len, std::min(len, size - chunk_ * len)};
    if (++chunk_ == place.chunks) {
      ++tensor_;
      chunk_ = 0;
      params_done_ = false;
    }
    return true;
  }

  uint64_t chunk_len(size_t tensor) const {
    const SchemaTensor& entry = schema_.tensors[tensor];
    return whole_ ? std::max<uint64_t>(1, entry.info.size()) : schema_.chunk_len(entry);
  }

 private:
  const Schema& schema_;
  const bool whole_;
  size_t tensor_ = 0;
  uint64_t chunk_ = 0;
  bool params_done_ = false;
};

// Room is made for so many frames of a message before they come: their number is only a claim.
inline constexpr uint64_t kMostFramesReserved = uint64_t{1} << 16;

// Frames of a whole message; no sum can wrap, as each tensor has fewer than 2^63 bytes and chunks hold 2^12 elements or
// 2^17 bytes: saturates at 2^63.
inline uint64_t total_frames(const Schema& schema) {
  uint64_t total = 0;
  for (const SchemaTensor& tensor : schema.tensors) {
    total += frame_count(chunk_count(tensor.info.size(), schema.chunk_len(tensor)));
    if (total >> 63 != 0) return uint64_t{1} << 63;
  }
  return total;
}

}  // namespace gradcodec
