// The law of a tensor's magnitudes as they are, in narrow cells.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "codec/levels/law.h"

namespace gradcodec {

// Sums over the magnitudes of a cell: of their weights w, of w r and of w r^2.
struct CellSums {
  double weight = 0, first = 0, second = 0;

  void add(double by_weight, double r) {
    weight += by_weight;
    first += by_weight * r;
    second += by_weight * r * r;
  }
};

// 32 cells an octave from 2^-40 to 1, and one below. In each the law is uniform about the mean of what is there, with
// its deviation, as far as the cell goes: many magnitudes fill it, and a single one stays nearly a point.
class HistogramLaw final : public MagnitudeLaw {
 public:
  static constexpr size_t kCells = 1 + 40 * 32;

  // Of r from 0 to 1: the first for all below 2^-40, the last for 1 too.
  static size_t cell_of(float r);

  // Of kCells cells, some weight above 0. Weights are made to sum to 1.
  explicit HistogramLaw(const std::vector<CellSums>& sums);

  Cumulative at(double x) const override;
  double quantile(double probability, double low, double high, double start) const override;

 private:
  struct Cell {
    double low, width;  // of what the law is uniform on; width above 0
    double weight;
    Cumulative before;  // up to it; its density is not used
  };

  std::vector<double> edges_;  // between cells
  std::vector<Cell> cells_;
};

}  // namespace gradcodec
