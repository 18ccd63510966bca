// What a scheme promises of a whole tensor, and how promises compose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "codec/tensor.h"

namespace gradcodec {

// Of C(x), the decoded values of a tensor x with given stored parameters. What is absent is not promised. "Expected" is
// over the random numbers. Squared errors are sums over the elements, in the tensor's units squared. What float32
// arithmetic adds (codec/checks/resolution.h) is not counted.
struct Promise {
  bool unbiased = false;     // the expected C(x) is the target
  bool independent = false;  // the errors of elements are independent of each other, the stored parameters given; of
                             // lattice vectors (Law::cell), those of different vectors

  const Tensor* target = nullptr;  // what C(x) is unbiased for; null: x itself

  std::optional<double> variance;  // the expected ||C(x) - target||^2, exactly
  std::optional<double> omega;     // it is at most omega ||target||^2 (omega-unbiased)
  std::optional<double> delta;     // the expected ||C(x) - target||^2 is at most (1 - delta) ||target||^2 (contraction)
  bool symmetric = false;          // each element's error is as likely e as -e
  bool projection = false;         // in each message x - C(x) is orthogonal to C(x): delta holds every time
  std::optional<double> max_error;  // largest |C(x)_i - target_i|

  // <C(x), target> = ||target||^2 in each message, to within this part of it (what float32 may add).
  std::optional<double> inner_product;
};

// Q2(Q1(x)), each with random numbers of its own:
//   both unbiased, Q2 for all of its input     omega = (1 + omega1)(1 + omega2) - 1
//   Q1 a projection, Q2 a contraction of what  delta = delta1 delta2; of an unbiased Q2 delta2 = 1 - omega2, if that is
//   Q1 keeps, which leaves the rest 0          more than 0
//   else                                       nothing
// (Alistarh et al. 2017, "QSGD"; Basu et al. 2019, "Qsparse-local-SGD", lemma 3.) Independence is not passed on: Q2's
// parameters may follow from what Q1 drew. The exact variance, Var Q1(x) + E Var Q2(Q1(x)), is left to whoever knows
// Q1(x).
Promise chain(const Promise& first, const Promise& second);

// The delta of the contraction that an unbiased scheme of this omega is: 1 - omega, rounded down. None from omega = 1
// on.
std::optional<double> delta_of(const std::optional<double>& omega);

// C(x) = A(x) + B(x - A(x)), B's random numbers its own: unbiased iff B is; omega = omega_b (1 - delta_a), where A's
// contraction is one.
Promise sum_of(const Promise& a, const Promise& b);

}  // namespace gradcodec
