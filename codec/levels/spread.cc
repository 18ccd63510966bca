// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/spread.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

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

// The sum of (r - lo)(hi - r) over regular values, against the products that are decoded; in order.
class VarianceOf {
 public:
  explicit VarianceOf(std::span<const float> levels) : levels_(levels), table_(levels.size()) {}

  double under(float scale, std::span<const float> x) {
    if (scale == 0) return 0;
    scale_levels(levels_, scale, table_);
    const float* magnitudes = table_.data() + rest_symbol(levels_);  // from 0 up
    const size_t count = table_.size() / 2 + 1;
    double sum = 0;
    constexpr size_t kBlock = 256;
    std::array<float, kBlock> value, low, high;
    for (size_t at = 0; at < x.size(); at += kBlock) {
      const size_t n = std::min(kBlock, x.size() - at);
      for (size_t i = 0; i < n; ++i) {
        const float magnitude = std::fabs(x[at + i]);
        value[i] = magnitude <= magnitudes[count - 1] ? magnitude : 0.0F;  // else it is not regular
        low[i] = 0;
        high[i] = magnitudes[1];
      }
      for (size_t j = 1; j + 1 < count; ++j) {
        const float level = magnitudes[j], next = magnitudes[j + 1];
        for (size_t i = 0; i < n; ++i) {
          const bool above = value[i] >= level;
          low[i] = above ? level : low[i];
          high[i] = above ? next : high[i];
        }
      }
      for (size_t i = 0; i < n; ++i) {
        const auto r = static_cast<double>(value[i]);
        sum += (r - static_cast<double>(low[i])) * (static_cast<double>(high[i]) - r);
      }
    }
    return sum;
  }

 private:
  std::span<const float> levels_;
  std::vector<float> table_;
};

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

Variances scan_variances(const Tensor& tensor, const Inputs& inputs, uint64_t bucket, std::span<const float> first,
                         std::span<const float> second) {
  std::optional<std::array<float, 2>> scales;  // of the whole tensor
  if (bucket == 0) {
    const float max = scan_extent(tensor, inputs).max;
    scales = {norm_scale(tensor, inputs, max, first), norm_scale(tensor, inputs, max, second)};
  }
  const auto look = [&](Range, std::span<const float> x) {
    VarianceOf by_first(first), by_second(second);
    Variances sums;
    for_each_bucket(x, bucket == 0 ? x.size() : bucket, [&](std::span<const float> values) {
      sums.first += by_first.under(scales ? (*scales)[0] : norm_scale(values, first), values);
      sums.second += by_second.under(scales ? (*scales)[1] : norm_scale(values, second), values);
    });
    return sums;
  };
  Variances whole;
  scan_chunks(tensor, inputs, look, [&](const Variances& part) {
    whole.first += part.first;
    whole.second += part.second;
  });
  return whole;
}

}  // namespace gradcodec
