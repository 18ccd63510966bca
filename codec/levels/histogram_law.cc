// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/histogram_law.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "codec/error.h"

namespace gradcodec {
namespace {

constexpr uint32_t kDropped = 18;                                           // bits of the mantissa
constexpr uint32_t kFirst = std::bit_cast<uint32_t>(0x1p-40F) >> kDropped;  // the second cell's
constexpr double kLeastWidth = 0x1p-30;                                     // of the cell's upper edge

// The lower edge, or the upper one of the cell before.
double edge_of(size_t cell) {
  if (cell == 0) return 0;
  return static_cast<double>(std::bit_cast<float>((kFirst + static_cast<uint32_t>(cell) - 1) << kDropped));
}

// The integrals of a uniform law of this weight, from its lower end to `part` of its width, after those before.
Cumulative added(const Cumulative& before, double low, double width, double weight, double part) {
  const double mass = weight * part, length = width * part;
  return {before.moment0 + mass, before.moment1 + mass * (low + length / 2),
          before.moment2 + mass * (low * low + low * length + length * length / 3),
          part > 0 && part < 1 ? weight / width : 0};
}

}  // namespace

size_t HistogramLaw::cell_of(float r) {
  const uint32_t place = std::bit_cast<uint32_t>(r) >> kDropped;
  return place < kFirst ? 0 : std::min(size_t{place - kFirst} + 1, kCells - 1);
}

HistogramLaw::HistogramLaw(const std::vector<CellSums>& sums) {
  double total = 0;
  for (const CellSums& cell : sums) total += cell.weight;
  if (sums.size() != kCells || !(total > 0)) throw Error(Exit::bug, "a histogram of nothing");
  Cumulative before = {0, 0, 0, 0};
  for (size_t i = 0; i < kCells; ++i) {
    const double from = edge_of(i), to = edge_of(i + 1);
    if (i > 0) edges_.push_back(from);
    if (sums[i].weight == 0) {
      cells_.push_back({from, to - from, 0, before});
      continue;
    }
    const double mean = std::clamp(sums[i].first / sums[i].weight, from, to);
    const double variance = std::max(sums[i].second / sums[i].weight - mean * mean, 0.0);
    const double half = std::min({std::sqrt(3 * variance), mean - from, to - mean});
    const double width = std::max(2 * half, kLeastWidth * to);
    const double low = std::clamp(mean - width / 2, from, to - width);
    cells_.push_back({low, width, sums[i].weight / total, before});
    before = added(before, low, width, sums[i].weight / total, 1);
  }
}

Cumulative HistogramLaw::at(double x) const {
  const auto above = std::upper_bound(edges_.begin(), edges_.end(), x);
  const Cell& cell = cells_[static_cast<size_t>(above - edges_.begin())];
  return added(cell.before, cell.low, cell.width, cell.weight, std::clamp((x - cell.low) / cell.width, 0.0, 1.0));
}

double HistogramLaw::quantile(double probability, double low, double high, double) const {
  const auto above = std::upper_bound(cells_.begin() + 1, cells_.end(), probability,
                                      [](double p, const Cell& cell) { return p < cell.before.moment0; });
  const Cell& cell = *(above - 1);
  const double part = cell.weight > 0 ? (probability - cell.before.moment0) / cell.weight : 0.5;
  return std::clamp(cell.low + std::clamp(part, 0.0, 1.0) * cell.width, low, high);
}

}  // namespace gradcodec
