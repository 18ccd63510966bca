// Chambers: symmetries of a lattice that bring a dither into a standard position.
//
// A decoder knows the dither z of a vector before its point p, and p - z, what it decodes to, is likelier small than
// large. So p lies where z points. A symmetry g of the lattice, found from z alone, moves z into a chamber; the point
// g p has then the same likely values whatever z was, and one model of symbols serves all. (For Z, g is a change of
// sign: what `mirrored` is to subtractive dither.) D4 and E8: coordinates sorted by |z|, the largest first, and made
// positive; of E8 only an even number may change sign, so the smallest stays negative if the number is odd. A2: the
// reflections that leave an angle from 0 to 30 degrees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/lattice/lattices.h"

namespace gradcodec::lattice {

// Of D4 and E8: coordinate k of g p is sign[k] p[place[k]].
template <typename Lattice>
class Chamber {
 public:
  static constexpr size_t L = Lattice::kDimension;

  explicit Chamber(const Vector<L>& z) {
    uint32_t negatives = 0;
    for (size_t i = 0; i < L; ++i) {
      size_t rank = 0;  // of equals, the lower place first
      for (size_t j = 0; j < i; ++j) rank += std::fabs(z[j]) >= std::fabs(z[i]) ? 1 : 0;
      for (size_t j = i + 1; j < L; ++j) rank += std::fabs(z[j]) > std::fabs(z[i]) ? 1 : 0;
      place_[rank] = i;
      sign_[rank] = z[i] < 0 ? -1 : 1;
      negatives += z[i] < 0 ? 1 : 0;
    }
    if (Lattice::kHasCosets && negatives % 2 == 1) sign_[L - 1] = -sign_[L - 1];
  }

  Point<L> enter(const Point<L>& p) const {
    Point<L> out;
    for (size_t k = 0; k < L; ++k) out[k] = sign_[k] * p[place_[k]];
    return out;
  }

  Point<L> leave(const Point<L>& p) const {
    Point<L> out;
    for (size_t k = 0; k < L; ++k) out[place_[k]] = sign_[k] * p[k];
    return out;
  }

 private:
  std::array<size_t, L> place_;
  std::array<int32_t, L> sign_;
};

// With doubled coordinates (i, j) of the same parity, all divisions are exact.
template <>
class Chamber<A2> {
 public:
  explicit Chamber(const Vector<2>& z)
      : first_(z[0] < 0 ? -1 : 1), second_(z[1] < 0 ? -1 : 1), above_60_(false), above_30_(false) {
    double x = std::fabs(z[0]), t = std::fabs(z[1]);  // multiples of 2^-24 below 1: what follows is exact
    above_60_ = t > x;
    if (above_60_) {
      const double along = (3 * t - x) / 2, across = (x + t) / 2;
      x = along;
      t = across;
    }
    above_30_ = 3 * t > x;
  }

  Point<2> enter(Point<2> p) const {
    p = {first_ * p[0], second_ * p[1]};
    if (above_60_) p = over_60(p);
    return above_30_ ? over_30(p) : p;
  }

  Point<2> leave(Point<2> p) const {
    if (above_30_) p = over_30(p);
    if (above_60_) p = over_60(p);
    return {first_ * p[0], second_ * p[1]};
  }

 private:
  // Reflections in the lines t = x (60 degrees) and 3 t = x (30 degrees).
  static Point<2> over_60(const Point<2>& p) { return {(3 * p[1] - p[0]) / 2, (p[0] + p[1]) / 2}; }
  static Point<2> over_30(const Point<2>& p) { return {(p[0] + 3 * p[1]) / 2, (p[0] - p[1]) / 2}; }

  int32_t first_, second_;
  bool above_60_, above_30_;
};

}  // namespace gradcodec::lattice
