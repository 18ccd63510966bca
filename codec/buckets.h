// What the quantizers below a rotation share: buckets of values that have parameters of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "codec/scan.h"
#include "codec/scheme.h"

namespace gradcodec {

inline uint64_t bucket_count(uint64_t len, uint64_t bucket) { return (len + bucket - 1) / bucket; }

// visit(number of the bucket, at, count) for the buckets of a chunk of `len` values; the last may be short.
template <typename Visit>
void for_each_bucket(uint64_t len, uint64_t bucket, Visit visit) {
  for (uint64_t at = 0; at < len; at += bucket) {
    visit(at / bucket, static_cast<size_t>(at), static_cast<size_t>(std::min(bucket, len - at)));
  }
}

// Of a damaged chunk. Throws Error(bad_input).
[[noreturn]] inline void refuse_block(uint64_t number, const std::string& why) {
  throw Error(Exit::bad_input, "block " + std::to_string(number) + " of the chunk has " + why);
}

// Whether a bucket that is not all 0 has no value of 2^-100 or more: its parameters may be too small to be stored as
// they should. Reads the tensor once.
bool has_tiny_bucket(const Tensor& tensor, const Chunks& chunks, uint64_t bucket);

}  // namespace gradcodec
