// How sharp the test of the overall bias is, from what is declared alone.
//
// A bias b adds to the sums that the e-process is made of: with S = r b + noise, the expectation of P is
// V0 p, p = 1 + sqrt(8/9) k / sqrt(n_eff), and the variance of D is V0 (1 + sqrt(8) k / sqrt(n_eff)), where
// k = ||b||^2 / sd0. Where few elements carry the error, both are far above V0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codec/checks/error_view.h"

namespace gradcodec {

inline constexpr unsigned kLambdas = 3;  // of the e-process, sharing its level

struct OverallSharpness {
  double growth = 1;    // p at the smallest effect: the best lambda is sqrt(2 ln(3 / level) / (V0 p))
  double smallest = 0;  // k that is found nine times in ten; infinity if none is below 10^6
};

// `laws`: of one message, V4 > 0; `level`: of the test; at least 2 trials.
OverallSharpness overall_sharpness(const LawSums& laws, double level, uint64_t trials);

}  // namespace gradcodec
