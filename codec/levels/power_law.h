// Levels for values with a tail of a power law, the largest truncated: Yan, Li, Xiao, Hou and Song, "Improved
// quantization strategies for managing heavy-tailed gradients in distributed learning", arXiv 2402.01798.
//
// In units of the magnitude where the tail begins: the density is tail (exponent - 1) |x|^-exponent for |x| > 1, and
// constant below, (1 - 2 tail) / 2. With s intervals between -a and a, the threshold, the high-resolution formula says
//   E(a) = 4 a^2 Q(a) / (c s^2) + B(a),   B(a) = 4 tail a^(3 - exponent) / ((exponent - 2) (exponent - 3)),
// where the shape Q, at most P(|x| <= a), depends on where the levels are, and c is 4 or 6 as in laplace.h. The paper
// takes Q for constant in a where E is minimised, which gives a fixed point; the true minimum is offered beside it.
// spec/schemes/truncated.md derives what follows.
//
// All thresholds are at least 1 and at most `limit`, which is at least 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace gradcodec {

struct PowerLaw {
  double exponent;  // gamma, above 3
  double tail;      // rho, P(x > 1): of one side
};

namespace power_law {

double mass(const PowerLaw& law, double a);              // P(|x| <= a)
double truncation_error(const PowerLaw& law, double a);  // B(a)

// Equal intervals (TQSGD): Q is the mass.
double uniform_threshold(const PowerLaw& law, double intervals, double c, double limit);
double best_uniform_threshold(const PowerLaw& law, double intervals, double c, double limit);

// A density of levels proportional to the cube root of the law's (TNQSGD).
double nonuniform_shape(const PowerLaw& law, double a);
double nonuniform_threshold(const PowerLaw& law, double intervals, double c, double limit);
double best_nonuniform_threshold(const PowerLaw& law, double intervals, double c, double limit);

// The positive levels, ascending, the last being the threshold: (intervals + 1) / 2 of them.
std::vector<double> nonuniform_levels(const PowerLaw& law, unsigned intervals, double threshold);

// Equal intervals within k a, k < 1, and other equal ones from there to a (TBQSGD), shared out as is best.
struct TwoScales {
  double inner;  // k
  double shape;  // Q
};
double two_scale_shape(const PowerLaw& law, double a, double inner);

// The best k: of 0.01, 0.02, ..., 0.99, then between that one's neighbours. Nothing is better that is so by less than
// 10^-9 of Q; of such, the one nearest 1/2 is taken (for a = 1 all are alike).
TwoScales two_scales(const PowerLaw& law, double a);
double two_scale_threshold(const PowerLaw& law, double intervals, double c, double limit);
double best_two_scale_threshold(const PowerLaw& law, double intervals, double c, double limit);

// How many of `intervals`, which is odd and at least 3, lie within k a: the odd number nearest the best share, the
// smaller of two, from 1 to intervals - 2. (Each side beyond k a has half of the rest.)
unsigned inner_intervals(const PowerLaw& law, unsigned intervals, double threshold, double inner);

// Likewise, with the best k.
std::vector<double> two_scale_levels(const PowerLaw& law, unsigned intervals, double threshold);

}  // namespace power_law
}  // namespace gradcodec
