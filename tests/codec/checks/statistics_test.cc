// Statistics of values, on examples worked by hand.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "codec/checks/entropy.h"
#include "codec/checks/histogram.h"
#include "codec/checks/moments.h"
#include "codec/checks/order_statistics.h"
#include "codec/checks/products.h"
#include "codec/checks/sum.h"
#include "codec/checks/zero_lines.h"

namespace gradcodec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
Moments moments_of(const std::vector<T>& x, size_t chunk = 1000) {
  Moments out;
  for (size_t at = 0; at < x.size(); at += chunk) {
    out.add(std::span<const T>(x).subspan(at, std::min(chunk, x.size() - at)));
  }
  return out;
}

template <typename T>
OrderStatistics order_of(const std::vector<T>& sorted, double mean = 0, double deviation = 1) {
  return order_statistics(std::span<const T>(sorted), mean, deviation);
}

TEST_CASE("a sum keeps what plain addition rounds away") {
  Sum sum, other;
  for (const double x : {1.0, 1e100, 1.0}) sum.add(x);
  other.add(-1e100);
  sum.merge(other);
  CHECK(sum.value() == 2);
}

TEST_CASE("moments of 0, 1, 2, 5") {
  for (const size_t chunk : {1, 2, 3, 4}) {
    const Moments m = moments_of<float>({0, 1, 2, 5}, chunk);
    CHECK(m.size() == 4);
    CHECK(m.zeros() == 1);
    CHECK(m.min() == 0);
    CHECK(m.max() == 5);
    CHECK(m.norm1() == 8);
    CHECK(m.norm2() == Approx(std::sqrt(30.0)).epsilon(1e-15));
    CHECK(m.norm_inf() == 5);
    CHECK(m.mean() == 2);
    CHECK(m.variance() == Approx(14.0 / 4).epsilon(1e-14));                // 4 + 1 + 0 + 9
    CHECK(m.kurtosis() == Approx(98.0 / 4 / (3.5 * 3.5)).epsilon(1e-14));  // 16 + 1 + 0 + 81
  }
}

TEST_CASE("a large mean leaves the variance alone") {
  std::vector<double> x;
  for (int i = 0; i < 1000; ++i) x.push_back(0x1p40 + (i % 2 == 0 ? 0x1p-10 : -0x1p-10));
  for (const size_t chunk : {7, 1000}) {
    CHECK(moments_of(x, chunk).variance() == Approx(0x1p-20).epsilon(1e-9));
    CHECK(moments_of(x, chunk).kurtosis() == Approx(1).epsilon(1e-9));
  }
}

TEST_CASE("a mean near zero is exact") {
  const Moments m = moments_of<double>({1e17, 3, -1e17, 1});
  CHECK(m.mean() == 1);
}

TEST_CASE("values that are not finite are counted alone") {
  const Moments m = moments_of<float>({1, NAN, -3, INFINITY, -INFINITY}, 2);
  CHECK(m.size() == 5);
  CHECK(m.nonfinite() == 3);
  CHECK(m.mean() == -1);
  CHECK(m.variance() == Approx(4));
  CHECK(m.norm_inf() == 3);
}

TEST_CASE("what is not defined is absent") {
  const Moments none = moments_of<float>({});
  CHECK(std::isnan(none.min()));
  CHECK(std::isnan(none.mean()));
  CHECK(std::isnan(none.variance()));
  CHECK(none.norm2() == 0);
  CHECK(std::isnan(moments_of<float>({NAN}).max()));
  const Moments equal = moments_of<float>({0.1F, 0.1F, 0.1F}, 2);
  CHECK(equal.mean() == static_cast<double>(0.1F));
  CHECK(equal.variance() == 0);
  CHECK(std::isnan(equal.kurtosis()));
  const Moments huge = moments_of<double>({1e300, -1e300, 5e299});
  CHECK(std::isnan(huge.norm2()));
  CHECK(std::isnan(huge.variance()));
  CHECK(huge.max() == 1e300);
  CHECK(std::isnan(moments_of<double>({1.7e308, 1.7e308, 1e308}).mean()));
  CHECK(moments_of<float>({1e-45F, -1e-45F}).kurtosis() == Approx(1));
  CHECK(moments_of<float>({3e38F, -3e38F}).kurtosis() == Approx(1));
}

TEST_CASE("median and mean distance from it") {
  CHECK(order_of<float>({-1, 0, 7}).median == 0);
  CHECK(order_of<float>({-1, 0, 7}).laplace_scale == Approx(8.0 / 3));
  CHECK(order_of<float>({1, 2, 4, 8}).median == 3);
  CHECK(std::isnan(order_of<float>({}).median));
}

TEST_CASE("Hill's estimate takes the largest magnitudes of either sign") {
  // 10 largest: +-16; the eleventh is 2: 1 / ln 8.
  std::vector<float> x(5, -16);
  x.insert(x.end(), {-2, 0, 1, 1.5});
  x.insert(x.end(), 5, 16);
  const OrderStatistics o = order_of(x);
  CHECK(o.tail_count == 10);
  CHECK(o.tail_threshold == 2);
  CHECK(o.tail_exponent == Approx(1 / std::log(8.0)));
  CHECK(tail_count_for(999) == 10);
  CHECK(tail_count_for(12345) == 123);
}

TEST_CASE("no tail without enough values, or if none passes the threshold") {
  for (const std::vector<float>& x :
       {std::vector<float>(10, 1), std::vector<float>(50, 1), std::vector<float>(50, 0), std::vector<float>{}}) {
    CHECK(std::isnan(order_of(x).tail_exponent));
    CHECK(order_of(x).tail_count == 0);
  }
  std::vector<float> few_nonzero(50, 0);
  few_nonzero.back() = 1;  // the eleventh largest magnitude is 0
  CHECK(std::isnan(order_of(few_nonzero).tail_exponent));
}

TEST_CASE("Kolmogorov-Smirnov distances") {
  // One value at the mean: the step from 0 to 1 is 0.5 from 0.5 either way.
  CHECK(order_of<float>({0}, 0, 1).ks_normal == 0.5);
  // -1 and 1 about a Laplace distribution of median 0 and scale 1: F(-1) = 1/(2e), 0.5 - F is the largest.
  CHECK(order_of<double>({-1, 1}).ks_laplace == Approx(0.5 - 0.5 / std::exp(1.0)));
  CHECK(std::isnan(order_of<float>({2, 2}, 2, 0).ks_normal));
  CHECK(std::isnan(order_of<float>({2, 2}, 2, 0).ks_laplace));
  CHECK(std::isnan(order_of<float>({1, 2}, kAbsent, kAbsent).ks_normal));
}

TEST_CASE("densities of the fits") {
  CHECK(laplace_density(3, 1, 2) == Approx(std::exp(-1.0) / 4));
  CHECK(normal_density(1, 1, 2) == Approx(0.5 / std::sqrt(2 * std::acos(-1.0))));
}

TEST_CASE("entropy of a half, a quarter, a quarter is 1.5 bits") {
  const std::vector<uint16_t> symbols = {0, 0, 1, 2};
  SymbolCounts counts, more;
  counts.add(3, symbols);
  CHECK(counts.bits() == Approx(6));
  CHECK(counts.symbols() == 4);
  more.add(as_bytes("abcd"));
  CHECK(more.bits() == Approx(8));
  counts.merge(more);
  CHECK(counts.symbols() == 8);
  CHECK(counts.bits() == Approx(2 * 2 + 6 * 3));
  counts.clear();
  CHECK(counts.bits() == 0);
}

TEST_CASE("rows and columns of zeros, seen in pieces") {
  const std::vector<float> x = {0, 0,     0, 0,    //
                                0, 5,     0, NAN,  //
                                0, -0.0F, 0, 0};
  for (const size_t piece : {1, 3, 5, 12}) {
    ZeroLines lines(3, 4);
    for (size_t at = 0; at < x.size(); at += piece) {
      const size_t count = std::min(piece, x.size() - at);
      lines.look({at, count}, std::span<const float>(x).subspan(at, count));
    }
    CHECK(lines.zero_rows() == 2);
    CHECK(lines.zero_columns() == 2);
  }
}

TEST_CASE("bins, and the share of what lies beyond them") {
  Histogram histogram(-1, 1, 4);
  const std::vector<double> x = {-1, -0.6, 0, 0.4, 1, 1.1, -5, kInfinity};
  histogram.add(std::span<const double>(x));
  CHECK(histogram.count(0) == 2);
  CHECK(histogram.count(1) == 0);
  CHECK(histogram.count(2) == 2);
  CHECK(histogram.count(3) == 1);
  CHECK(histogram.total() == 7);
  CHECK(histogram.density(0) == Approx(2.0 / 7 / 0.5));
  CHECK(histogram.edge(3) == 0.5);
}

TEST_CASE("cosines") {
  const std::vector<float> a = {3, 4, INFINITY}, b = {4, 3, 1};
  const auto product = [](const std::vector<float>& x, const std::vector<float>& y) {
    return inner_product(std::span<const float>(x), std::span<const float>(y));
  };
  CHECK(product(a, b) == 24);
  PairSums sums;
  sums.ab.add(product(a, b));
  sums.aa.add(product(a, a));
  sums.bb.add(product(b, b));
  CHECK(sums.cosine() == Approx(24 / (5 * std::sqrt(26.0))));
  CHECK(std::isnan(PairSums().cosine()));
}

}  // namespace
}  // namespace gradcodec
