// SPDX-License-Identifier: Apache-2.0
#include "codec/promise.h"

namespace gradcodec {

Promise chain(const Promise& first, const Promise& second) {
  if (first.exact) return second;
  if (second.exact) return first;
  Promise both;
  if (!second.unbiased) return both;
  if (first.unbiased) {
    both.unbiased = true;
    both.independent = first.independent && second.independent;
    both.target = first.target;
    if (first.omega && second.omega) both.omega = (1 + *first.omega) * (1 + *second.omega) - 1;
    if (both.omega && *both.omega < 1) both.delta = 1 - *both.omega;
    if (first.max_error && second.max_error) both.max_error = *first.max_error + *second.max_error;
  } else if (first.every_time && first.delta && second.omega && *second.omega < 1) {
    both.delta = *first.delta * (1 - *second.omega);
    both.target = first.target;
  }
  return both;
}

Promise sum(const Promise& a, const Promise& b) {
  Promise both;
  both.unbiased = b.unbiased && b.target == nullptr;
  both.independent = both.unbiased && b.independent;
  both.max_error = b.max_error;
  if (a.target != nullptr || b.target != nullptr) return both;
  both.variance = both.unbiased ? b.variance : std::nullopt;
  if (a.delta && b.omega && both.unbiased) both.omega = *b.omega * (1 - *a.delta);
  if (a.delta && b.delta) both.delta = 1 - (1 - *a.delta) * (1 - *b.delta);
  both.every_time = a.every_time && b.every_time;
  if (!both.delta && both.omega && *both.omega < 1) both.delta = 1 - *both.omega;
  return both;
}

}  // namespace gradcodec
