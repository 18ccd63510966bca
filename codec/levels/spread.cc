// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/spread.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/kernels/kernels.h"
#include "codec/levels/table.h"

namespace gradcodec {
namespace {

constexpr size_t kClasses = 256;
constexpr double kLeastSpread = 0x1p-12;  // variance over squared mean

// Of values that share a norm.
struct Norms {
  double magnitudes = 0, squares = 0;
  uint64_t count = 0;
};

Norms norms_of(std::span<const float> x) {
  kernels::Sums magnitudes;
  kernels::add_magnitudes(x.data(), x.size(), magnitudes);
  return {magnitudes.total(), squares_of(x), x.size()};
}

Norms scan_norms(const Tensor& tensor, const Inputs& inputs) {
  Norms whole;
  const auto look = [](Range, std::span<const float> x) { return norms_of(x); };
  scan_chunks(tensor, inputs, look, [&](const Norms& part) {
    whole.magnitudes += part.magnitudes;
    whole.squares += part.squares;
    whole.count += part.count;
  });
  return whole;
}

// Weights, and means and variances times weight, by class.
class Classes {
 public:
  void add(const Norms& norms) {
    if (norms.squares == 0) return;
    const auto d = static_cast<double>(norms.count);
    const double mean = norms.magnitudes / (std::sqrt(norms.squares) * d);
    const double place = mean * std::sqrt(d) * kClasses;
    Sums& sums = classes_[std::min(static_cast<size_t>(place), kClasses - 1)];
    const double weight = norms.squares * d;
    sums.weight += weight;
    sums.mean += weight * mean;
    sums.variance += weight * std::max(1 / d - mean * mean, kLeastSpread * mean * mean);
  }

  void add(const Classes& other) {
    for (size_t i = 0; i < kClasses; ++i) {
      classes_[i].weight += other.classes_[i].weight;
      classes_[i].mean += other.classes_[i].mean;
      classes_[i].variance += other.classes_[i].variance;
    }
  }

  std::vector<NormalPart> parts() const {
    std::vector<NormalPart> parts;
    for (const Sums& sums : classes_) {
      if (sums.weight == 0) continue;
      parts.push_back({sums.weight, sums.mean / sums.weight, std::sqrt(sums.variance / sums.weight)});
    }
    return parts;
  }

 private:
  struct Sums {
    double weight = 0, mean = 0, variance = 0;
  };
  std::array<Sums, kClasses> classes_ = {};
};

template <typename Visit>
void for_each_bucket(std::span<const float> x, uint64_t bucket, Visit visit) {
  for (size_t at = 0; at < x.size(); at += static_cast<size_t>(bucket)) {
    visit(x.subspan(at, std::min(static_cast<size_t>(bucket), x.size() - at)));
  }
}

// Adds scale^2 for each value to the cell of its magnitude over the scale. What is not regular counts as 0.
void add_cells(std::span<const float> values, float scale, std::vector<CellSums>& cells) {
  if (scale == 0) return;
  const double weight = static_cast<double>(scale) * static_cast<double>(scale);
  for (const float value : values) {
    const float magnitude = std::fabs(value);
    const float r = magnitude <= scale ? magnitude / scale : 0.0F;
    cells[HistogramLaw::cell_of(r)].add(weight, static_cast<double>(r));
  }
}

}  // namespace

float norm_scale(std::span<const float> values, std::span<const float> levels) {
  return covering_scale(std::sqrt(squares_of(values)), extent_of(values).max, levels);
}

float norm_scale(const Tensor& tensor, const Inputs& inputs, float max, std::span<const float> levels) {
  return covering_scale(std::sqrt(scan_norms(tensor, inputs).squares), max, levels);
}

std::vector<NormalPart> scan_spread(const Tensor& tensor, const Inputs& inputs, uint64_t bucket) {
  Classes whole;
  if (bucket == 0) {
    whole.add(scan_norms(tensor, inputs));
    return whole.parts();
  }
  const auto look = [bucket](Range, std::span<const float> x) {
    Classes classes;
    for_each_bucket(x, bucket, [&](std::span<const float> values) { classes.add(norms_of(values)); });
    return classes;
  };
  scan_chunks(tensor, inputs, look, [&](const Classes& part) { whole.add(part); });
  return whole.parts();
}

std::optional<HistogramLaw> scan_histogram(const Tensor& tensor, const Inputs& inputs, uint64_t bucket, float max) {
  const std::array<float, 3> unit = {-1, 0, 1};
  const float whole_scale = bucket == 0 ? norm_scale(tensor, inputs, max, unit) : 0;
  const auto look = [&](Range, std::span<const float> x) {
    std::vector<CellSums> cells(HistogramLaw::kCells);
    for_each_bucket(x, bucket == 0 ? x.size() : bucket, [&](std::span<const float> values) {
      add_cells(values, bucket == 0 ? whole_scale : norm_scale(values, unit), cells);
    });
    return cells;
  };
  std::vector<CellSums> whole(HistogramLaw::kCells);
  scan_chunks(tensor, inputs, look, [&](const std::vector<CellSums>& part) {
    for (size_t i = 0; i < whole.size(); ++i) {
      whole[i].weight += part[i].weight;
      whole[i].first += part[i].first;
      whole[i].second += part[i].second;
    }
  });
  if (std::all_of(whole.begin(), whole.end(), [](const CellSums& cell) { return cell.weight == 0; }))
    return std::nullopt;
  return HistogramLaw(whole);
}

}  // namespace gradcodec
