// How many values fall into each of equally wide bins.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace gradcodec {

// Bins of [low, high], low < high; `high` itself is in the last. Values beyond count in total() alone, values that are
// not finite nowhere.
class Histogram {
 public:
  Histogram(double low, double high, size_t bins) : low_(low), high_(high), counts_(bins) {}

  template <typename T>
  void add(std::span<const T> x) {
    const double scale = static_cast<double>(counts_.size()) / (high_ - low_);
    for (const T element : x) {
      const auto value = static_cast<double>(element);
      if (!std::isfinite(value)) continue;
      ++total_;
      if (value < low_ || value > high_) continue;
      ++counts_[std::min(counts_.size() - 1, static_cast<size_t>((value - low_) * scale))];
    }
  }

  // Of the same bins.
  void merge(const Histogram& other) {
    total_ += other.total_;
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }

  double low() const { return low_; }
  double high() const { return high_; }
  size_t bins() const { return counts_.size(); }
  double width() const { return (high_ - low_) / static_cast<double>(counts_.size()); }
  double edge(size_t bin) const { return low_ + static_cast<double>(bin) * width(); }
  uint64_t count(size_t bin) const { return counts_[bin]; }
  uint64_t total() const { return total_; }
  uint64_t beyond() const { return total_ - std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }

  // Of all values, also those beyond the bins, the share in this one for each unit of its width.
  double density(size_t bin) const {
    return static_cast<double>(counts_[bin]) / (static_cast<double>(total_) * width());
  }

 private:
  double low_, high_;
  std::vector<uint64_t> counts_;
  uint64_t total_ = 0;
};

}  // namespace gradcodec
