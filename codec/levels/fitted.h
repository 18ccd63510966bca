// Levels for magnitudes whose law is known: the inner levels l_1 < ... < l_s between l_0 = 0 and l_s+1 = 1.
//
// A magnitude r between neighbours has variance (r - l_j)(l_j+1 - r), so Psi(l) = sum_j E (r - l_j)(l_j+1 - r) is what
// levels are judged by.
// ALQ, AMQ: Faghri et al., "Adaptive gradient quantization for data-parallel SGD", NeurIPS 2020, arXiv 2010.12460.
// NUQSGD: Ramezani-Kebrya et al., "NUQSGD: Provably communication-efficient data-parallel SGD via nonuniform
// quantization", JMLR 22 (114), 2021, arXiv 1908.06077.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "codec/levels/law.h"

namespace gradcodec {

// Psi.
double expected_variance(const MagnitudeLaw& law, std::span<const double> inner);

// One sweep of ALQ's coordinate descent: each level in turn goes where Psi is least for its neighbours c and d, which
// is where the law's distribution function is F(d) - (1 / (d - c)) integral from c to d of (r - c) dF. To the middle
// where nothing lies between c and d.
void descend(const MagnitudeLaw& law, std::span<double> inner);

// ALQ: descends from exponential, uniform and quantile levels, from such as would be best if they were many, and from
// those in `more`, until a sweep gains less than 2^-16 of Psi, or for 400 / s sweeps (4 at least, 100 at most); the
// best of them, the earlier of two that are as good.
std::vector<double> alq_levels(const MagnitudeLaw& law, unsigned s, std::span<const std::vector<double>> more = {});

// AMQ: p, p^2, ..., p^s. The p that makes Psi least, by golden sections about the best of 64 between 2^(-40 / s) and
// 0.995: Psi need not be convex.
double amq_base(const MagnitudeLaw& law, unsigned s);
std::vector<double> powers(double base, unsigned s);

// NUQSGD: 1/2, 1/4, ..., 2^-s, exact.
std::vector<double> exponential_levels(unsigned s);

// As a table's magnitudes, the last of them 1: rounded to float32, at least 2^-60, and moved apart where need be.
inline constexpr float kLeastInnerLevel = 0x1p-60F;
std::vector<float> stored_magnitudes(std::span<const double> inner);

// omega of magnitudes l_1 < ... < l_s+1 = 1 under a scale that is the norm of d values, rounded up by less than 2^-22
// of itself, and products rounded to float32: E ||x' - x||^2 <= omega ||x||^2.
double level_bound(std::span<const float> magnitudes, double d);

}  // namespace gradcodec
