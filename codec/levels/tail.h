// What truncated quantizers learn of a tensor: its mean magnitude, and a power law fitted to the largest tenth of it.
// Irregular values (codec/scan.h) are left out. All is read in chunks, by inputs.loop if there is one, with the same
// result; memory does not grow with the tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "codec/levels/power_law.h"
#include "codec/scan.h"

namespace gradcodec {

// The sum of |x| (as codec/scan.h defines sums) over the number of regular values; one pass. 0 if there are none. It is
// the likeliest scale of a Laplace law.
double scan_mean_magnitude(const Tensor& tensor, const Inputs& inputs, uint64_t irregular);

// The smallest magnitude such that `rank` of the regular values, or more, are at most that; rank from 1 to their
// number. Exact, by counting in three passes.
float scan_magnitude_of_rank(const Tensor& tensor, const Inputs& inputs, uint64_t rank);

// The magnitude that nine tenths of the n regular values are not beyond (rank n - floor(n / 10)); if it is 0, that of
// nine tenths of the values that are not 0. 0 if all are, or n is.
float scan_tail_begin(const Tensor& tensor, const Inputs& inputs, uint64_t irregular);

struct Tail {
  float begin;
  PowerLaw law;  // of x / begin
};

// The exponent of greatest likelihood (Hill 1975): 1 + m / sum of ln(|x| / begin) over the m values beyond `begin`,
// limited to [3.01, 5], where the model holds; tail = m / (2 n). Nothing if `begin` is 0, or m less than 2.
std::optional<Tail> scan_tail(const Tensor& tensor, const Inputs& inputs, uint64_t irregular);

}  // namespace gradcodec
