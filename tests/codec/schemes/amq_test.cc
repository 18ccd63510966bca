// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/amq.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/support.h"

using namespace gradcodec;

TEST_CASE("amq: the levels are powers of one number, each rounded to float32") {
  std::vector<float> x(4096);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<float>(i)) + std::cos(static_cast<float>(i * i % 4099));
  const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  const VectorTensor tensor(x);
  const auto encoder = parse_scheme("amq:s=6").prepare(tensor, inputs);
  const std::span<const float> levels = encoder->decoder().fitted_levels();
  REQUIRE(levels.size() == 6);
  double power = 1;
  for (size_t j = 6; j-- > 0;) {
    power *= static_cast<double>(levels[5]);
    CHECK(static_cast<double>(levels[j]) == Approx(power).epsilon(1e-6));
  }
  CHECK(*encoder->promise().variance <
        *parse_scheme("nuqsgd:s=6,bucket=8192").prepare(tensor, inputs)->promise().variance);
}
