// SPDX-License-Identifier: Apache-2.0
#include "codec/promise.h"

#include <cmath>

namespace gradcodec {

Promise chain(const Promise& first, const Promise& second) {
  Promise both;
  if (second.target != nullptr) return both;
  both.target = first.target;
  if (first.projection && first.delta && second.delta) both.delta = *first.delta * *second.delta;
  if (!second.unbiased) return both;
  if (first.unbiased) {
    both.unbiased = true;
    if (first.omega && second.omega) both.omega = (1 + *first.omega) * (1 + *second.omega) - 1;
    both.delta = delta_of(both.omega);
    if (first.max_error && second.max_error) both.max_error = *first.max_error + *second.max_error;
  }
  return both;
}

std::optional<double> delta_of(const std::optional<double>& omega) {
  if (!omega || *omega >= 1) return std::nullopt;
  return std::nextafter(1 - *omega, 0.0);
}

Promise sum_of(const Promise& a, const Promise& b) {
  Promise both;
  if (a.target != nullptr || b.target != nullptr) return both;
  both.unbiased = b.unbiased;
  both.max_error = b.max_error;
  if (b.unbiased) both.variance = b.variance;
  if (b.unbiased && a.delta && b.omega) both.omega = *b.omega * (1 - *a.delta);
  if (a.delta && b.delta) both.delta = 1 - (1 - *a.delta) * (1 - *b.delta);
  if (!both.delta) both.delta = delta_of(both.omega);
  return both;
}

}  // namespace gradcodec
