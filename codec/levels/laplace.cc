// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/laplace.h"

#include <cmath>

#include "codec/functions.h"
#include "codec/levels/search.h"

namespace gradcodec::laplace {

using functions::natural_exp;
using functions::natural_log;

double best_threshold(double intervals, double c) { return 3 * natural_log(1 + intervals / std::sqrt(54 / c)); }

std::vector<double> levels(unsigned intervals, double threshold) {
  const double covered = 1 - natural_exp(-threshold / 3);  // of the integral of exp(-x / 3), for x >= 0
  std::vector<double> found;
  for (unsigned j = 1; j < intervals; j += 2) found.push_back(-3 * natural_log(1 - covered * j / intervals));
  found.push_back(threshold);
  return found;
}

double uniform_threshold(double intervals, double c) {
  const double squares = c * intervals * intervals / 4;
  return root_of_rising([=](double a) { return a * natural_exp(a) - squares; }, 0, natural_log(1 + squares));
}

// dE/da = 0, times c s^2 exp(a) / 2: 4 a (exp(a) - 1) + 2 a^2 = c s^2.
double best_uniform_threshold(double intervals, double c) {
  const double squares = c * intervals * intervals;
  return root_of_rising([=](double a) { return 4 * a * (natural_exp(a) - 1) + 2 * a * a - squares; }, 0,
                        natural_log(2 + squares));
}

}  // namespace gradcodec::laplace
