// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/spread.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/levels/fitted.h"
#include "codec/levels/table.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kChunk = 4096;

Inputs inputs() { return {Random({1, {}, {}}, 0), kFirstStage, kChunk}; }

// Sums of twelve uniform numbers less 6, about normal.
std::vector<float> bells(size_t n, float deviation) {
  std::vector<uint32_t> words(12 * n);
  kernels::scalar::philox_words({{3, 4}, 0, 0}, 0, words.size(), words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < words.size(); ++i) {
    x[i / 12] += deviation * (static_cast<float>(words[i] >> 8) * 0x1p-24F - 0.5F);
  }
  return x;
}

}  // namespace

TEST_CASE("buckets of one law are one part, of the mean and deviation of its magnitudes") {
  const VectorTensor tensor(bells(8192, 0.25F));
  for (const uint64_t bucket : {uint64_t{0}, uint64_t{4096}, uint64_t{2048}}) {
    const std::vector<NormalPart> parts = scan_spread(tensor, inputs(), bucket);
    const double root = std::sqrt(bucket == 0 ? 8192.0 : static_cast<double>(bucket));
    double total = 0, mean = 0;
    for (const NormalPart& part : parts) {
      total += part.weight;
      mean += part.weight * part.mean;
      CHECK(part.mean * root == Approx(0.798).margin(0.03));
      CHECK(part.deviation * root == Approx(0.603).margin(0.03));
    }
    CHECK(mean / total * root == Approx(0.798).margin(0.01));
    if (bucket != 0) CHECK(total == Approx(squares_of(tensor.values()) * static_cast<double>(bucket)).epsilon(1e-9));
  }
}

TEST_CASE("a constant's part is not a point, and zeros have none") {
  const std::vector<NormalPart> parts = scan_spread(VectorTensor(std::vector<float>(256, -3.0F)), inputs(), 64);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].mean == 0.125);
  CHECK(parts[0].deviation == 0.125 / 64);
  CHECK(scan_spread(VectorTensor(std::vector<float>(5000, 0.0F)), inputs(), 64).empty());
  CHECK(scan_spread(VectorTensor({}), inputs(), 0).empty());
  std::vector<float> values(300, 0.0F);
  values[7] = std::numeric_limits<float>::infinity();
  CHECK(scan_spread(VectorTensor(values), inputs(), 100).empty());
}

TEST_CASE("a table's variance under the histogram is its part of the norms") {
  std::vector<float> values = bells(9000, 1);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[4100] = 1e38F;
  values[4500] = 100;
  const VectorTensor tensor(values);
  for (const std::vector<double>& inner : {exponential_levels(9), powers(0.7, 20)}) {
    const std::vector<float> levels = mirrored_levels(stored_magnitudes(inner), true);
    for (const uint64_t bucket : {uint64_t{2}, uint64_t{100}, uint64_t{8192}}) {
      double expected = 0, norms = 0;
      for (const Range range : chunks_of(values.size(), kChunk)) {
        for (uint64_t at = 0; at < range.count; at += bucket) {
          const auto run = std::span(values).subspan(range.first + at, std::min(bucket, range.count - at));
          const float scale = norm_scale(run, levels);
          std::vector<float> table(levels.size());
          scale_levels(levels, scale, table);
          for (const float x : run) {
            norms += static_cast<double>(scale) * static_cast<double>(scale);
            if (!fits(std::bit_cast<uint32_t>(x), 1e30)) continue;
            const size_t low = scale == 0 ? 0 : interval_of(table, x);
            expected += (double{x} - double{table[low]}) * (double{table[low + 1]} - double{x});
          }
        }
      }
      const double found = expected_variance(*scan_histogram(tensor, inputs(), bucket, 100), inner);
      CHECK(found * norms == Approx(expected).epsilon(0.02));
    }
  }
  const std::optional<HistogramLaw> whole = scan_histogram(VectorTensor({3, -4, 0}), inputs(), 0, 4);
  CHECK(whole->at(0.5).moment0 == Approx(1.0 / 3));
  CHECK(whole->at(0.7).moment0 == Approx(2.0 / 3));
  CHECK(!scan_histogram(VectorTensor({0, 0}), inputs(), 1, 0));
  CHECK(!scan_histogram(VectorTensor({}), inputs(), 0, 0));
}

TEST_CASE("the norm of a tensor is a scale that reaches its largest value") {
  const std::vector<float> levels = {-1, 0, 1};
  CHECK(norm_scale(std::vector<float>{3, -4}, levels) == 5);
  CHECK(norm_scale(VectorTensor({3, -4}), inputs(), 4, levels) == 5);
  CHECK(norm_scale(std::vector<float>{0x1p126F, 0x1p126F}, levels) == 0x1p126F);  // the greatest scale there is
  CHECK(norm_scale(std::vector<float>{0x1p-149F}, levels) == 0x1p-126F);
  CHECK(norm_scale(std::vector<float>{1, 1}, levels) == std::nextafter(std::sqrt(2.0F), 2.0F));
  CHECK(double{norm_scale(std::vector<float>{1, 1}, levels)} >= std::sqrt(2.0));
}
