// The lattices A2 (hexagons), D4 and E8: their nearest points, and what is known of their cells.
//
// Conway and Sloane, "Fast quantizing and decoding algorithms for lattice quantizers and codes", IEEE Transactions on
// Information Theory 28, 1982 (nearest points of D_n and of unions of cosets); "Voronoi regions of lattices, second
// moments of polytopes, and quantization", same volume (second moments).
//
// Coordinates are in units of the scale. A2's second coordinate is in units of sqrt(3) scales: its points then are
// (i, j) and (i + 1/2, j + 1/2), i and j whole, its metric is dx^2 + 3 dt^2, and nothing irrational is left.
//
// Where points tie, the choice follows from the distances y - p alone, so that Q(y + p) = Q(y) + p for every point p of
// the lattice, ties too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#ifdef __FAST_MATH__
#error "results are defined by IEEE arithmetic: build without -ffast-math"
#endif

namespace gradcodec::lattice {

static_assert(FLT_EVAL_METHOD == 0, "float64 expressions must be computed in float64");

enum class Kind : uint8_t { a2, d4, e8 };  // in the order of the parameter's choices

inline constexpr size_t kMaxDimension = 8;

// A point, its coordinates doubled: all of them are integers then.
template <size_t L>
using Point = std::array<int32_t, L>;

template <size_t L>
using Vector = std::array<double, L>;

// floor(y + 1/2) for |y| < 2^30.
inline int32_t round_half_up(double y) {
  const double shifted = y + 0.5;
  const auto truncated = static_cast<int32_t>(shifted);
  return truncated - (shifted < truncated ? 1 : 0);
}

// The nearest point of D_n, integers of even sum: `p` and `rest` = y - p. Round each coordinate; if the sum is odd,
// move the one that was rounded the farthest (the lowest of equals) to its other side (upwards from a distance of 0).
template <size_t L>
inline void nearest_even(const Vector<L>& y, Point<L>& p, Vector<L>& rest) {
  int32_t sum = 0;
  for (size_t i = 0; i < L; ++i) {
    p[i] = round_half_up(y[i]);
    rest[i] = y[i] - p[i];
    sum += p[i];
  }
  if ((sum & 1) == 0) return;
  size_t far = 0;
  for (size_t i = 1; i < L; ++i) far = std::fabs(rest[i]) > std::fabs(rest[far]) ? i : far;
  const int32_t by = rest[far] >= 0 ? 1 : -1;
  p[far] += by;
  rest[far] -= by;
}

// Whether the point of the shifted coset is nearer, given squared distances and first coordinates of y - p. In a tie it
// is the one whose first coordinate of y - p is smaller: those of two cosets are never equal.
inline bool takes_shifted(double plain, double shifted, double plain_first, double shifted_first) {
  return shifted < plain || (shifted == plain && shifted_first < plain_first);
}

// kTableNorm4: the largest squared norm in the table of points (table.h), times 4. `norm4` is that of any point, whose
// doubled coordinates may have 17 bits: its squares do not fit into 32.
//
// `table_key` orders that table: by |p - m|^2 for a vector m near the mean of the dithers that a chamber holds
// (chamber.h), less |m|^2 and in units that make it whole.
struct A2 {
  static constexpr size_t kDimension = 2;
  static constexpr int kHalfSide = 0;          // dithers are drawn from a cube of sides 2^kHalfSide around 0
  static constexpr bool kHasCosets = true;     // coordinates may be halves of odd numbers, all of them then
  static constexpr bool kHasEvenSums = false;  // whole coordinates sum to even numbers
  static constexpr int32_t kTableNorm4 = 72000;

  static int64_t norm4(const Point<2>& twice) {
    const int64_t first = twice[0], second = twice[1];
    return first * first + 3 * (second * second);
  }

  // m = (1/3, 1/18)
  static int64_t table_key(const Point<2>& twice) {
    return 3 * norm4(twice) - int64_t{4} * twice[0] - int64_t{2} * twice[1];
  }

  static void nearest(const Vector<2>& y, Point<2>& twice, Vector<2>& rest) {
    Vector<2> far;
    Point<2> shifted;
    for (size_t i = 0; i < 2; ++i) {
      twice[i] = 2 * round_half_up(y[i]);
      rest[i] = y[i] - 0.5 * twice[i];
      shifted[i] = 2 * round_half_up(y[i] - 0.5) + 1;
      far[i] = y[i] - 0.5 * shifted[i];
    }
    const auto distance = [](const Vector<2>& d) { return d[0] * d[0] + 3 * (d[1] * d[1]); };
    if (takes_shifted(distance(rest), distance(far), rest[0], far[0])) {
      twice = shifted;
      rest = far;
    }
  }
};

struct D4 {
  static constexpr size_t kDimension = 4;
  static constexpr int kHalfSide = 1;
  static constexpr bool kHasCosets = false;
  static constexpr bool kHasEvenSums = true;
  static constexpr int32_t kTableNorm4 = 640;

  static int64_t norm4(const Point<4>& twice) {
    int64_t sum = 0;
    for (const int64_t t : twice) sum += t * t;
    return sum;
  }

  // m = (0.5, 0.3, 0.2, 0.1)
  static int64_t table_key(const Point<4>& twice) {
    const int64_t product =
        int64_t{10} * twice[0] + int64_t{6} * twice[1] + int64_t{4} * twice[2] + int64_t{2} * twice[3];
    return 5 * norm4(twice) - product;
  }

  static void nearest(const Vector<4>& y, Point<4>& twice, Vector<4>& rest) {
    nearest_even(y, twice, rest);
    for (int32_t& t : twice) t *= 2;
  }
};

struct E8 {
  static constexpr size_t kDimension = 8;
  static constexpr int kHalfSide = 1;
  static constexpr bool kHasCosets = true;
  static constexpr bool kHasEvenSums = true;
  static constexpr int32_t kTableNorm4 = 40;

  static int64_t norm4(const Point<8>& twice) {
    int64_t sum = 0;
    for (const int64_t t : twice) sum += t * t;
    return sum;
  }

  // m = (0.49, 0.35, 0.29, 0.22, 0.17, 0.12, 0.08, -0.01)
  static int64_t table_key(const Point<8>& twice) {
    constexpr std::array<int64_t, 8> kMean = {49, 35, 29, 22, 17, 12, 8, -1};
    int64_t product = 0;
    for (size_t i = 0; i < 8; ++i) product += kMean[i] * twice[i];
    return 25 * norm4(twice) - product;
  }

  static void nearest(const Vector<8>& y, Point<8>& twice, Vector<8>& rest) {
    Vector<8> moved, far;
    Point<8> shifted;
    for (size_t i = 0; i < 8; ++i) moved[i] = y[i] - 0.5;
    nearest_even(y, twice, rest);
    nearest_even(moved, shifted, far);
    const auto distance = [](const Vector<8>& d) {
      double sum = 0;
      for (const double r : d) sum += r * r;
      return sum;
    };
    const bool take = takes_shifted(distance(rest), distance(far), rest[0], far[0]);
    for (size_t i = 0; i < 8; ++i) {
      twice[i] = take ? 2 * shifted[i] + 1 : 2 * twice[i];
      rest[i] = take ? far[i] : rest[i];
    }
  }
};

// Calls visit(A2()), visit(D4()) or visit(E8()).
template <typename Visit>
auto with_lattice(Kind kind, Visit visit) {
  switch (kind) {
    case Kind::a2:
      return visit(A2());
    case Kind::d4:
      return visit(D4());
    default:
      return visit(E8());
  }
}

// What is known of the cell of 0 at scale 1.
struct Cell {
  size_t dimension;
  double variance;  // of a coordinate of a uniform point, A2's second in units of 1
  double radius;    // covering radius: the largest norm, and here the largest coordinate, too
};

// A2: 5/72, 1/sqrt(3); D4: 13/120, 1; E8: 929/12960, 1. (Second moments G V^(2/L) with G = 5 / (36 sqrt 3) and V =
// sqrt(3) / 2; G = 13 / (120 sqrt 2) and V = 2; G = 929 / 12960 and V = 1.)
Cell cell_of(Kind kind);

// Scales of the coordinates of a vector, as the decoder multiplies by them: A2's second is sqrt(3) as large.
struct Scales {
  float first = 0, second = 0;

  Scales(Kind kind, float scale) : first(scale), second(kind == Kind::a2 ? scale * 0x1.bb67aep0F : scale) {}
  float of(size_t place) const { return place == 1 ? second : first; }
};

}  // namespace gradcodec::lattice
