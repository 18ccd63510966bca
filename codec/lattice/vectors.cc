// SPDX-License-Identifier: Apache-2.0
#include "codec/lattice/vectors.h"

#include <algorithm>

#include "codec/lattice/chamber.h"

namespace gradcodec::lattice {
namespace {

constexpr size_t kBatch = 64;  // vectors at a time

template <typename Lattice>
struct Batch {
  static constexpr size_t L = Lattice::kDimension;
  std::array<uint32_t, kBatch * L> words;
  std::array<Vector<L>, kBatch> dithers;

  // Those of `count` vectors of the chunk, from number `first` on.
  void draw(const CellDraws& draws, Range range, uint64_t first, size_t count) {
    const size_t numbers = count * L;
    const auto inside = static_cast<size_t>(std::min<uint64_t>(numbers, range.count - first * L));
    kernels::philox_words(draws.elements, range.first + first * L, inside, words.data());
    if (inside < numbers) {
      std::array<uint32_t, kMaxDimension> behind;
      kernels::philox_words(draws.padding, kMaxDimension * (range.first + range.count), L, behind.data());
      for (size_t i = inside; i < numbers; ++i) words[i] = behind[i % L];
    }
    for (size_t k = 0; k < count; ++k) dithers[k] = dither(words.data() + k * L);
  }

 private:
  static Vector<L> dither(const uint32_t* of_vector) {
    constexpr int kDropped = 9 - Lattice::kHalfSide;
    constexpr double kCorner = Lattice::kHalfSide == 0 ? 0.5 : 1;
    Vector<L> v, z;
    for (size_t i = 0; i < L; ++i) v[i] = (static_cast<double>(of_vector[i] >> kDropped) + 0.5) * 0x1p-23 - kCorner;
    Point<L> nearest;
    Lattice::nearest(v, nearest, z);
    return z;
  }
};

float restored(int32_t twice, double z, float scale) {
  return (0.5F * static_cast<float>(twice) - static_cast<float>(z)) * scale;
}

// Calls visit(number of the vector, its dither) for each vector of the chunk.
template <typename Lattice, typename Visit>
void for_each_vector(const CellDraws& draws, Range range, Visit visit) {
  constexpr size_t L = Lattice::kDimension;
  const uint64_t vectors = (range.count + L - 1) / L;
  Batch<Lattice> batch;
  for (uint64_t first = 0; first < vectors; first += kBatch) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(kBatch, vectors - first));
    batch.draw(draws, range, first, count);
    for (size_t k = 0; k < count; ++k) visit(static_cast<size_t>(first) + k, batch.dithers[k]);
  }
}

template <typename Lattice>
void quantize_as(std::span<const float> x, const CellDraws& draws, Range range, const Scales& scales, int32_t* points,
                 std::span<float> decoded) {
  constexpr size_t L = Lattice::kDimension;
  for_each_vector<Lattice>(draws, range, [&](size_t vector, const Vector<L>& z) {
    const size_t at = vector * L, inside = std::min(L, x.size() - at);
    Vector<L> sum = z, rest;
    for (size_t i = 0; i < inside; ++i) {
      sum[i] = static_cast<double>(x[at + i]) / static_cast<double>(scales.of(i)) + z[i];
    }
    Point<L> twice;
    Lattice::nearest(sum, twice, rest);
    const Point<L> seen = Chamber<Lattice>(z).enter(twice);
    std::copy(seen.begin(), seen.end(), points + at);
    if (decoded.empty()) return;
    for (size_t i = 0; i < inside; ++i) decoded[at + i] = restored(twice[i], z[i], scales.of(i));
  });
}

template <typename Lattice>
void restore_as(const int32_t* points, const CellDraws& draws, Range range, const Scales& scales,
                std::span<float> out) {
  constexpr size_t L = Lattice::kDimension;
  for_each_vector<Lattice>(draws, range, [&](size_t vector, const Vector<L>& z) {
    const size_t at = vector * L, inside = std::min(L, out.size() - at);
    Point<L> seen;
    std::copy_n(points + at, L, seen.begin());
    const Point<L> twice = Chamber<Lattice>(z).leave(seen);
    for (size_t i = 0; i < inside; ++i) out[at + i] = restored(twice[i], z[i], scales.of(i));
  });
}

}  // namespace

void cell_dithers(Kind kind, const CellDraws& draws, Range range, uint64_t first, size_t count, float* z) {
  with_lattice(kind, [&](auto lattice) {
    constexpr size_t L = decltype(lattice)::kDimension;
    Batch<decltype(lattice)> batch;
    for (size_t done = 0; done < count; done += kBatch) {
      const size_t some = std::min(kBatch, count - done);
      batch.draw(draws, range, first + done, some);
      for (size_t k = 0; k < some; ++k) {
        for (size_t i = 0; i < L; ++i) *z++ = static_cast<float>(batch.dithers[k][i]);
      }
    }
  });
}

void quantize(std::span<const float> x, Kind kind, const CellDraws& draws, Range range, const Scales& scales,
              int32_t* points, std::span<float> decoded) {
  with_lattice(kind, [&](auto lattice) { quantize_as<decltype(lattice)>(x, draws, range, scales, points, decoded); });
}

void restore(const int32_t* points, Kind kind, const CellDraws& draws, Range range, const Scales& scales,
             std::span<float> out) {
  with_lattice(kind, [&](auto lattice) { restore_as<decltype(lattice)>(points, draws, range, scales, out); });
}

}  // namespace gradcodec::lattice
