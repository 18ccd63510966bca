// What differential privacy binomial noise buys, computed in two ways. Nothing here decides a byte.
//
// The mechanism: an integer query f(x) of d coordinates is released as f(x) + Z, the Z_j independent, Bin(trials, p).
// It is (epsilon, delta)-private for a *neighbour relation*: for each two inputs that are neighbours, and each event,
// P(event | one) <= e^epsilon P(event | other) + delta. Which inputs are neighbours enters by how far f moves between
// them, and by nothing else: whoever quotes an epsilon must say which relation it is for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace gradcodec {

// The largest norms of f(x) - f(x') over neighbours x, x'.
struct Sensitivity {
  double l1 = 0, l2 = 0, max = 0;
};

// Neighbours are any two vectors of `d` coordinates, each quantized to an integer from 0 to `intervals`: one client's
// whole update is replaced by any other.
Sensitivity replaced_by_any(uint64_t d, uint64_t intervals);

// Neighbours are vectors at most `distance` apart in the l2 norm, coordinates rounded at random to multiples of `step`
// and kept within `intervals` of them. Each coordinate moves by less than |x_j - x'_j| / step + 2 whatever the
// roundings are, and what holds for each pair of roundings holds for their mixture, as (epsilon, delta) is jointly
// convex.
Sensitivity replaced_within(uint64_t d, uint64_t intervals, double step, double distance);

struct BinomialNoise {
  uint64_t trials = 0;
  double p = 0.5;      // in (0, 1)
  double scale = 1.0;  // f(x) + scale (Z - trials p) is released; f(x) and the scale's inverse are integers
};

// Epsilon by theorem 1 of Agarwal, Suresh, Yu, Kumar, McMahan, "cpSGD: communication-efficient and
// differentially-private distributed SGD", NeurIPS 2018, arXiv 1805.10559; for d coordinates, delta in (0, 1). Nothing
// where its condition fails: trials p (1 - p) >= max(23 ln(10 d / delta), 2 max / scale).
std::optional<double> theorem_epsilon(const BinomialNoise& noise, uint64_t d, const Sensitivity& moved, double delta);

// The fewest trials for which the theorem gives at most `epsilon` > 0; noise.trials is ignored. Nothing if it is not
// reached with 2^62.
std::optional<uint64_t> theorem_trials(BinomialNoise noise, uint64_t d, const Sensitivity& moved, double delta,
                                       double epsilon);

// The smallest epsilon >= 0 for one integer that moves by at most `shift` >= 1 under Bin(trials, 1/2), exact but for
// rounding (relative 1e-9); delta in [1e-200, 1). Infinite if delta is below P(Z < shift): those sums only one of two
// neighbours can give. Time and memory of order sqrt(trials), which is at most 2^40.
double exact_epsilon(uint64_t trials, uint64_t shift, double delta);

}  // namespace gradcodec
