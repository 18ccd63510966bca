// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/order_statistics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "codec/checks/sum.h"

namespace gradcodec {
namespace {

double laplace_below(double x, double location, double scale) {
  const double z = (x - location) / scale;
  return z > 0 ? 1 - 0.5 * std::exp(-z) : 0.5 * std::exp(z);
}

double normal_below(double x, double mean, double deviation) {
  return 0.5 * std::erfc(-(x - mean) / deviation * (std::numbers::sqrt2 / 2));
}

template <typename T>
double median_of(std::span<const T> sorted) {
  const size_t half = sorted.size() / 2;
  const auto upper = static_cast<double>(sorted[half]);
  return sorted.size() % 2 == 1 ? upper : std::midpoint(static_cast<double>(sorted[half - 1]), upper);
}

template <typename T>
double mean_distance(std::span<const T> sorted, double from) {
  Sum sum;
  for (const T x : sorted) sum.add(std::fabs(static_cast<double>(x) - from));
  return sum.value() / static_cast<double>(sorted.size());
}

// The largest distance between the step function of the values and `below`, on either side of each step.
template <typename T, typename Below>
double distance(std::span<const T> sorted, Below below) {
  const auto n = static_cast<double>(sorted.size());
  double largest = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double p = below(static_cast<double>(sorted[i]));
    largest = std::max({largest, static_cast<double>(i + 1) / n - p, p - static_cast<double>(i) / n});
  }
  return largest;
}

// The `count` largest magnitudes, from the largest: they lie at the two ends.
template <typename T>
std::vector<double> largest_magnitudes(std::span<const T> sorted, uint64_t count) {
  std::vector<double> out;
  out.reserve(static_cast<size_t>(count));
  size_t low = 0, high = sorted.size();
  while (out.size() < count) {
    const double left = std::fabs(static_cast<double>(sorted[low]));
    const double right = std::fabs(static_cast<double>(sorted[high - 1]));
    out.push_back(std::max(left, right));
    left > right ? ++low : --high;
  }
  return out;
}

template <typename T>
void find_tail(std::span<const T> sorted, OrderStatistics& out) {
  const uint64_t count = tail_count_for(sorted.size());
  if (sorted.size() <= count) return;
  const std::vector<double> largest = largest_magnitudes(sorted, count + 1);
  const double threshold = largest.back();
  if (threshold == 0 || threshold == largest.front()) return;
  Sum sum;
  for (const double magnitude : largest) sum.add(std::log(magnitude / threshold));
  out.tail_exponent = static_cast<double>(count) / sum.value();
  if (!std::isfinite(out.tail_exponent)) {
    out.tail_exponent = kAbsent;
    return;
  }
  out.tail_count = count;
  out.tail_threshold = threshold;
}

}  // namespace

template <typename T>
OrderStatistics order_statistics(std::span<const T> sorted, double mean, double deviation) {
  OrderStatistics out;
  if (sorted.empty()) return out;
  out.median = median_of(sorted);
  const double scale = mean_distance(sorted, out.median);
  if (std::isfinite(scale)) out.laplace_scale = scale;
  find_tail(sorted, out);
  if (scale > 0 && std::isfinite(scale)) {
    out.ks_laplace = distance(sorted, [&](double x) { return laplace_below(x, out.median, scale); });
  }
  if (deviation > 0 && std::isfinite(mean)) {
    out.ks_normal = distance(sorted, [&](double x) { return normal_below(x, mean, deviation); });
  }
  return out;
}

double laplace_density(double x, double location, double scale) {
  return std::exp(-std::fabs(x - location) / scale) / (2 * scale);
}

double normal_density(double x, double mean, double deviation) {
  const double z = (x - mean) / deviation;
  return std::exp(-z * z / 2) / (deviation * std::sqrt(2 * std::numbers::pi));
}

template OrderStatistics order_statistics(std::span<const float> sorted, double mean, double deviation);
template OrderStatistics order_statistics(std::span<const double> sorted, double mean, double deviation);

}  // namespace gradcodec
