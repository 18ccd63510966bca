// What a scheme declares of one element's error: the values that it may take, and how likely they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace gradcodec {

// The law of decoded - target for one element, given the target and the stored parameters. Elements are independent of
// each other given those, but for `subset` and `cell`. All numbers are in the tensor's units. spec/verify.md says how
// each is tested.
struct Law {
  enum Kind : uint8_t {
    none,     // nothing is declared of this element
    outside,  // it lies where the declared law does not reach: beyond the last level
    point,    // always `lo`
    two,      // `hi` with probability `f`, else `lo`
    uniform,  // uniform on [lo, hi]
    subset,  // `hi` if the element is one of those drawn, else `lo`; each is with probability `f`, but the tensor's are
             // drawn together, without replacement: a fixed number of them
    sum,     // as two, and (hi - lo) (Z - count / 2) more, Z binomial of `count` trials of probability 1/2
    cell,    // one coordinate of lattice vector number `lo` of the chunk, whose error is uniform on a cell: of variance
             // `f` in every direction, and no longer than `hi`. Numbers rise from element to element; coordinates that
             // are not here (exceptions, padding) do not matter. `count`: coordinates of a whole vector
  };

  Kind kind = none;
  uint32_t count = 0;
  double lo = 0, hi = 0, f = 0;

  constexpr Law() = default;
  constexpr Law(Kind is, double low, double high, double part, uint32_t parts = 0)
      : kind(is), count(parts), lo(low), hi(high), f(part) {}

  bool operator==(const Law&) const = default;

  // Of `two`, as all that adds up laws computes it.
  double variance_of_two() const { return (hi - lo) * (hi - lo) * f * (1 - f); }

  static Law at(double error) { return {point, error, error, 0}; }

  // Subtractive dither of this step (Schuchman 1964).
  static Law dithered(double step) { return {uniform, -step / 2, step / 2, 0}; }

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

  // x d / k if it is one of the k elements drawn of d, else 0 (rand-k, scaled to be unbiased).
  static Law sampled(double x, double k, double d) {
    if (x == 0 || k >= d) return at(0);
    return {subset, -x, (d / k - 1) * x, k / d};
  }

  // Unbiased rounding as above, lo < hi, and binomial noise of `trials` trials: (hi - lo) (Z - trials / 2) (Agarwal et
  // al., "cpSGD", arXiv 1805.10559).
  static Law with_noise(double x, double lo, double hi, uint32_t trials) {
    return {sum, lo - x, hi - x, (x - lo) / (hi - lo), trials};
  }

  // One of the `dimension` coordinates of the error of vector number `vector` of a chunk: the lattice's cells have this
  // covering radius and this variance per dimension, both already scaled. Needs cells without a preferred direction, as
  // those of A2, D4 and E8 are.
  static Law in_cell(double radius, double variance, uint32_t dimension, uint64_t vector) {
    return {cell, static_cast<double>(vector), radius, variance, dimension};
  }
};

}  // namespace gradcodec
