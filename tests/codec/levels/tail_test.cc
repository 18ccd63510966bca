// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/tail.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "codec/edges.h"
#include "codec/levels/power_law_values.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Inputs inputs_of(uint64_t chunk_len) { return {Random({1, {}, {}}, 0), kFirstStage, chunk_len}; }

// The definition, by sorting: the rank-th smallest magnitude.
float sorted_rank(std::vector<float> x, uint64_t rank) {
  for (float& value : x) value = std::fabs(value);
  std::sort(x.begin(), x.end());
  return x[rank - 1];
}

}  // namespace

TEST_CASE("the mean magnitude leaves irregular values out") {
  const VectorTensor tensor({1, -2, kNan, 3, 0, std::numeric_limits<float>::infinity()});
  CHECK(scan_mean_magnitude(tensor, inputs_of(4), 2) == 1.5);
  CHECK(scan_mean_magnitude(VectorTensor({kNan}), inputs_of(4), 1) == 0);
  CHECK(scan_mean_magnitude(VectorTensor({}), inputs_of(4), 0) == 0);
}

TEST_CASE("a magnitude of a rank is what sorting gives, for every rank") {
  const std::vector<float> x = varied(500);
  const VectorTensor tensor(x);
  for (const uint64_t chunk_len : {64, 1000}) {
    for (uint64_t rank = 1; rank <= x.size(); ++rank) {
      REQUIRE(scan_magnitude_of_rank(tensor, inputs_of(chunk_len), rank) == sorted_rank(x, rank));
    }
  }
}

TEST_CASE("a magnitude of a rank is exact at the ends of float32, and passes irregular values over") {
  const std::vector<float> regular = {-0.0F, 1e-45F, -2e-45F, 1, -1, std::nextafter(1.0F, 2.0F), 0x1p126F};
  std::vector<float> x = regular;
  x.insert(x.end(), {kNan, -kNan, std::numeric_limits<float>::infinity(), 0x1.000002p126F});
  for (uint64_t rank = 1; rank <= regular.size(); ++rank) {
    CHECK(scan_magnitude_of_rank(VectorTensor(x), inputs_of(4), rank) == sorted_rank(regular, rank));
  }
}

TEST_CASE("the tail begins where nine tenths of the values end, or of those that are not 0") {
  std::vector<float> x;
  for (int i = 1; i <= 20; ++i) x.push_back(static_cast<float>(i % 2 == 0 ? i : -i));
  CHECK(scan_tail_begin(VectorTensor(x), inputs_of(7), 0) == 18);
  x.push_back(21);  // rank 21 - 2
  CHECK(scan_tail_begin(VectorTensor(x), inputs_of(7), 0) == 19);
  x.push_back(kNan);
  CHECK(scan_tail_begin(VectorTensor(x), inputs_of(7), 1) == 19);
  x.insert(x.end(), 1000, 0.0F);
  CHECK(scan_tail_begin(VectorTensor(x), inputs_of(64), 1) == 19);
  CHECK(scan_tail_begin(VectorTensor({5}), inputs_of(64), 0) == 5);
  CHECK(scan_tail_begin(VectorTensor({0, -0.0F}), inputs_of(64), 0) == 0);
  CHECK(scan_tail_begin(VectorTensor({}), inputs_of(64), 0) == 0);
}

// Over equal steps of probability the estimate has no chance in it; what it is off is the last step's, about 1 / m.
TEST_CASE("the exponent of a power law is found") {
  for (const double exponent : {3.2, 4.0, 4.7}) {
    const auto tail = scan_tail(VectorTensor(power_law_values(200000, exponent, 0.05)), inputs_of(4096), 0);
    REQUIRE(tail);
    CHECK(std::fabs(tail->law.exponent - exponent) < 0.002);
    CHECK(std::fabs(tail->law.tail - 0.05) < 1e-5);
    CHECK(std::fabs(tail->begin - 1) < 1e-4F);
  }
}

// Two values of twenty beyond 1.
TEST_CASE("the estimate by hand") {
  std::vector<float> x(18, 0.5F);
  x[3] = -1;
  x.insert(x.end(), {2, -2});
  const auto tail = scan_tail(VectorTensor(x), inputs_of(6), 0);
  REQUIRE(tail);
  CHECK(tail->begin == 1);
  // 1 + 2 / (2 ln 2) = 2.44 is below what the model allows.
  CHECK(tail->law.exponent == 3.01);
  CHECK(tail->law.tail == 0.05);
  x[18] = 1.5F;
  x[19] = 1.25F;
  const auto within = scan_tail(VectorTensor(x), inputs_of(6), 0);
  REQUIRE(within);
  CHECK(std::fabs(within->law.exponent - (1 + 2 / (std::log(1.5) + std::log(1.25)))) < 1e-12);
  x[18] = 1.0625F;
  x[19] = 1.125F;
  CHECK(scan_tail(VectorTensor(x), inputs_of(6), 0)->law.exponent == 5);
}

TEST_CASE("there is no tail to fit with less than two values beyond its beginning") {
  CHECK_FALSE(scan_tail(VectorTensor({}), inputs_of(64), 0));
  CHECK_FALSE(scan_tail(VectorTensor(std::vector<float>(100, 0.0F)), inputs_of(64), 0));
  CHECK_FALSE(scan_tail(VectorTensor(std::vector<float>(100, -0.25F)), inputs_of(64), 0));
  std::vector<float> outlier(100, 0.25F);
  outlier[7] = 3;
  CHECK_FALSE(scan_tail(VectorTensor(outlier), inputs_of(64), 0));
  outlier[8] = -4;
  CHECK(scan_tail(VectorTensor(outlier), inputs_of(64), 0));
}

TEST_CASE("what is learnt of a tensor does not depend on who reads its chunks") {
  const VectorTensor tensor(varied(10001));
  Inputs alone = inputs_of(128), together = inputs_of(128);
  together.loop = [](uint64_t count, const Job& job) {
    std::thread second([&] {
      for (uint64_t i = count; i-- > count / 2;) job(i);
    });
    for (uint64_t i = 0; i < count / 2; ++i) job(i);
    second.join();
  };
  const auto first = scan_tail(tensor, alone, 0), again = scan_tail(tensor, together, 0);
  REQUIRE(first);
  REQUIRE(again);
  CHECK(first->begin == again->begin);
  CHECK(first->law.exponent == again->law.exponent);
  CHECK(first->law.tail == again->law.tail);
  CHECK(scan_mean_magnitude(tensor, alone, 0) == scan_mean_magnitude(tensor, together, 0));
}
