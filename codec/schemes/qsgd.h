// qsgd: stochastic rounding to 2s + 1 levels, the step from a norm of the bucket.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"
#include "codec/schemes/grid_quantizer.h"

namespace gradcodec {

enum class Norm : uint8_t { l2, max };

// The encoder of qsgd: layout.max_level is s, layout.bucket the elements a norm; the step is norm / s, rounded up.
std::unique_ptr<Encoder> prepare_qsgd(const Tensor& tensor, GridLayout layout, Norm norm, const Inputs& inputs);

// Largest E||x' - x||^2 / ||x||^2 that d values may have with s levels, rounding of the step not counted. l2: with A =
// sqrt(d) / s, A^2/4 up to 3/sqrt(2), 1/8 + 2A^2/9 up to 9/4, then A - 1. max: d / (4 s^2), and (sqrt(d) - 1) / 2 for
// s = 1. spec/schemes/qsgd.md derives both; Lemma 3.1 of arXiv 1610.02132, min(d/s^2, sqrt(d)/s), is looser.
double qsgd_omega(uint64_t d, uint32_t s, Norm norm);

const Scheme& qsgd_scheme();

}  // namespace gradcodec
