// What messages add up to without being decoded (spec/aggregate.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"
#include "codec/summable.h"

namespace gradcodec {

// Only aggregate encodes by it: `--scheme sum` is refused.
const Scheme& sum_scheme();

inline constexpr uint64_t kMaxSummed = uint64_t{1} << 53;  // messages in a sum

// Whether float32 holds every sum that there can be. `below`: another scheme stands over it and decodes it further.
bool holds_sums(const Summands& summands, bool below);
bool holds_sum(double decoded);  // one that is decoded

// The parameters that a tensor's sum stores. Of `symbols`: 1 to 8 steps, max_level at most 32,767.
Bytes stored_sum(const Summands& summands);

// The streams of a chunk's sum, as Summable adds them up.
void put_sums(std::span<const int32_t> sums, const Summands& summands, std::vector<Stream>& streams);
void put_sums(std::span<const double> sums, std::vector<Stream>& streams);

}  // namespace gradcodec
