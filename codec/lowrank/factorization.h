// A matrix that is about U V, of few rows V: by one randomised power iteration (Halko, Martinsson and Tropp, "Finding
// structure with randomness", SIAM Review 53, 2011, algorithms 4.4 and 5.1), then turned to singular vectors.
//
// All of it is float64 in a written order, so that encoders agree on every machine; decoders never do it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "codec/kernels/kernels.h"
#include "codec/loop.h"
#include "codec/tensor.h"

namespace gradcodec {

// A tensor as a matrix. Its elements are an array outer x cols x fold, in C order: element (o, c, t) stands in row o
// fold + t, column c. With a fold of 1 these are the rows of the tensor.
struct MatrixView {
  uint64_t rows = 0, cols = 0, fold = 1;

  uint64_t size() const { return rows * cols; }
  uint64_t outer() const { return rows / fold; }
};

struct Factorization {
  std::vector<double> strength;  // s_k, singular values about, falling; those that are 0 are left out
  std::vector<double> u;         // component by component: each as many as rows, of length 1, orthogonal to the others
  std::vector<double> v;         // likewise: as many as columns, of length s_k: row k of U^T A

  uint64_t rank() const { return strength.size(); }
};

// At most `rank` components of the tensor, which has as many elements as the matrix and regular values alone; the start
// is the signs of the words of `start`. Reads the tensor four times, by `loop`. The sum of its squares must be from
// 2^-100 to 2^100.
Factorization factorize(const Tensor& tensor, const MatrixView& view, uint64_t rank, const kernels::Draws& start,
                        const Loop& loop);

}  // namespace gradcodec
