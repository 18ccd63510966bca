// Levels for values of a Laplace law, the largest truncated: Yan, Li, Xiao, Li and Song, "Truncated non-uniform
// quantization for distributed SGD", arXiv 2402.01160.
//
// In units of the law's scale, E|x|: the density is exp(-|x|) / 2. A quantizer with `intervals` = s intervals between
// -a and a, a the threshold, has by the high-resolution formula the mean squared error
//   E = sum over intervals of P(interval) width^2 / c  +  2 exp(-a),
// the second term the square of what is cut off. `c` is 4 if each value is charged with the worst of its interval, as
// the paper does, and 6 if with the mean over it. spec/schemes/truncated.md derives what follows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace gradcodec::laplace {

// The threshold of least E if the density of levels is the best, proportional to exp(-|x| / 3).
double best_threshold(double intervals, double c);

// The positive levels of that density, ascending, the last being the threshold: (intervals + 1) / 2 of them. s is odd.
std::vector<double> levels(unsigned intervals, double threshold);

// For equal intervals: a exp(a) = c s^2 / 4, which is the least E with the values beyond the threshold counted as if
// they were rounded, too.
double uniform_threshold(double intervals, double c);

// For equal intervals, the threshold of least E.
double best_uniform_threshold(double intervals, double c);

}  // namespace gradcodec::laplace
