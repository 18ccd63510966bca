// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/reconstruction.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace gradcodec;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

Reconstruction of(const std::vector<double>& x, const std::vector<double>& decoded) {
  ReconstructionSums sums;
  sums.add(x, decoded, 0, 0);
  return sums.result();
}

}  // namespace

TEST_CASE("errors of two values by hand") {
  const Reconstruction r = of({3, 4}, {3, 5});
  CHECK(r.compared == 2);
  CHECK(r.nmse == Approx(1.0 / 25).epsilon(1e-14));
  CHECK(r.bias == Approx(4.0 / 25).epsilon(1e-14));
  CHECK(r.cosine == Approx(29 / (5 * std::sqrt(34.0))).epsilon(1e-14));
  CHECK(r.psnr == Approx(10 * std::log10(2.0)).epsilon(1e-14));  // range 1, rmse sqrt(1/2)
  CHECK(r.max_error == 1.0);
  CHECK(r.max_index == 1);
}

TEST_CASE("what is not defined is absent, and nothing is NaN") {
  const Reconstruction none = of({}, {});
  CHECK(none.compared == 0);
  CHECK_FALSE((none.nmse || none.cosine || none.bias || none.psnr || none.max_error));

  const Reconstruction zeros = of({0, 0}, {0, 0});
  CHECK_FALSE((zeros.nmse || zeros.cosine || zeros.bias || zeros.psnr));
  CHECK(zeros.max_error == 0.0);

  const Reconstruction from_zero = of({0, 0}, {1, 0});
  CHECK_FALSE((from_zero.nmse || from_zero.cosine || from_zero.bias || from_zero.psnr));
  CHECK(from_zero.max_error == 1.0);

  const Reconstruction to_zero = of({1, 2}, {0, 0});
  CHECK(to_zero.nmse == 1.0);
  CHECK(to_zero.bias == -1.0);
  CHECK_FALSE(to_zero.cosine);

  const Reconstruction exact = of({1, 2}, {1, 2});
  CHECK(exact.nmse == 0.0);
  CHECK(exact.cosine == Approx(1));
  CHECK_FALSE(exact.psnr);

  const Reconstruction huge = of({1e300, -1e300}, {1e300, 0});  // squares pass float64
  CHECK_FALSE((huge.nmse || huge.cosine || huge.bias || huge.psnr));
  CHECK(huge.max_error == 1e300);
  CHECK_FALSE(of({1e308, 1}, {-1e308, 1}).max_error);
  CHECK_FALSE(of({1e-300, 0}, {0, 0}).nmse);  // they would vanish
}

TEST_CASE("values that are not finite are counted and in nothing else") {
  const Reconstruction r =
      of({kNan, kInfinity, -kInfinity, kInfinity, 2, kNan, 1}, {kNan, kInfinity, kInfinity, 5, kNan, kInfinity, 1.5});
  CHECK(r.compared == 1);
  CHECK(r.nonfinite == 6);
  CHECK(r.nonfinite_changed == 4);
  CHECK(r.nmse == 0.25);
  CHECK(r.max_index == 6);
}

TEST_CASE("parts add up, and the first largest error is the one that is told") {
  ReconstructionSums first, second;
  first.add(std::vector<double>{3}, std::vector<double>{3}, 0, 10);
  second.add(std::vector<double>{4, 0}, std::vector<double>{5, -1}, 2, 20);
  first.merge(second);
  const Reconstruction r = first.result(), whole = of({3, 4, 0}, {3, 5, -1});
  CHECK(r.nmse == whole.nmse);
  CHECK(r.cosine == whole.cosine);
  CHECK(r.bias == whole.bias);
  CHECK(r.psnr == whole.psnr);
  CHECK(r.max_part == 2);
  CHECK(r.max_index == 20);
}
