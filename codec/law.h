// What a scheme declares of one element's error: the values that it may take, and how likely they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gradcodec {

// The law of decoded - target for one element, given the target and the stored parameters. Elements are independent of
// each other given those. All numbers are in the tensor's units.
struct Law {
  enum Kind : uint8_t {
    none,     // nothing is declared of this element
    outside,  // it lies where the declared law does not reach: beyond the last level
    point,    // always `lo`
    two,      // `hi` with probability `f`, else `lo`
    uniform,  // uniform on [lo, hi]
    cell,     // a coordinate of a vector that is uniform on a lattice's cell: within [lo, hi], of variance f
  };

  Kind kind = none;
  double lo = 0, hi = 0, f = 0;
  uint8_t dimension = 1, place = 0;  // of a cell's vector, and of the element in it

  static Law at(double error) { return {point, error, error, 0}; }

  // Subtractive dither of this step (Schuchman 1964).
  static Law dithered(double step) { return {uniform, -step / 2, step / 2, 0}; }

  // Subtractive dither of a vector (Zamir and Feder 1996). The vector's norm is at most `radius`; its elements are
  // uncorrelated, and independent of other vectors.
  static Law of_cell(double variance, double radius, size_t dimension, size_t place) {
    return {cell, -radius, radius, variance, static_cast<uint8_t>(dimension), static_cast<uint8_t>(place)};
  }

  // The s of tests: what bounds sums of weighted errors. `two`, `uniform`: the width. `cell`: |<w, e>| is at most the
  // largest |w_i| times it, as |w| <= sqrt(dimension) max |w_i|.
  double width() const { return kind == cell ? hi * std::sqrt(static_cast<double>(dimension)) : hi - lo; }

  bool operator==(const Law&) const = default;

  // Unbiased rounding of x to one of its neighbours lo <= x <= hi: hi with probability (x - lo) / (hi - lo).
  static Law rounded(double x, double lo, double hi) {
    if (!(lo < hi)) return at(lo - x);
    return {two, lo - x, hi - x, (x - lo) / (hi - lo)};
  }

  // The same to multiples of a step (half-dithered quantization; QSGD, arXiv 1610.02132, section 3.1).
  static Law rounded_to_step(double x, double step) {
    const double below = std::floor(x / step) * step;
    return rounded(x, below, below + step);
  }
};

}  // namespace gradcodec
