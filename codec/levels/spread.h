// How a tensor's magnitudes are spread about their norms: what levels are fitted to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "codec/levels/histogram_law.h"
#include "codec/levels/normal_mixture.h"
#include "codec/scan.h"

namespace gradcodec {

// The scale of these values by their Euclidean norm, rounded up to float32: covering_scale. What is not regular counts
// as 0.
float norm_scale(std::span<const float> values, std::span<const float> levels);

// Of a whole tensor: one pass, extent apart.
float norm_scale(const Tensor& tensor, const Inputs& inputs, float max, std::span<const float> levels);

// One pass. With r = |x| / norm in a bucket of d values, mean r is m and mean r^2 is 1 / d, so that m sqrt(d), from
// 1 / sqrt(d) to 1, says all that a normal law has. Buckets are put in 256 classes by it, each class a part whose mean
// and variance (1 / d - m^2; of at least m^2 / 4096, since nothing can be fitted to a point) are those of its buckets,
// weighted by norm^2 d, as is the part: what a bucket's error counts in the tensor's. They are moments of the
// magnitudes as they are, taken for those of the law before it is truncated, as the authors' code does. A bucket of 0
// is the whole tensor. No part if all values are 0.
std::vector<NormalPart> scan_spread(const Tensor& tensor, const Inputs& inputs, uint64_t bucket);

// One pass (two if bucket is 0): the magnitudes r themselves, each weighted by the square of its norm, so that a
// table's variance under this law is its part of the tensor's sum of norm^2. `max` is the tensor's largest magnitude.
// Nothing if all values are 0.
std::optional<HistogramLaw> scan_histogram(const Tensor& tensor, const Inputs& inputs, uint64_t bucket, float max);

}  // namespace gradcodec
