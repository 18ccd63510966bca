// SPDX-License-Identifier: Apache-2.0
#include "codec/model/class_steps.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/model/rows.h"
#include "codec/scan.h"
#include "codec/support.h"

using namespace gradcodec;

TEST_CASE("steps by class: the drop never falls as scales do, and is 0 for large ones") {
  CHECK(step_drop(7) == 0);
  CHECK(step_drop(6) == 1);
  CHECK(step_drop(-39) == 9);
  CHECK(step_drop(-42) == 9);
  CHECK(step_drop(-43) == 10);
  CHECK(step_drop(-180) == 55);
  for (int32_t t = -20000; t < 100; ++t) {
    REQUIRE(step_drop(t) >= step_drop(t + 1));
    REQUIRE(step_drop(t) - step_drop(t + 1) <= 1);
  }
}

TEST_CASE("steps by class: each buys bits at the price of all, as nearly as classes tell") {
  // R(s / D) + D^2 / (2 ln 2 D0^2) against its least over all drops. R is known at quarter octaves.
  const auto price = [](int32_t t, int32_t drop) {
    const double bits = model_bits(scale_class_of(t + drop)) / 65536.0;
    return bits + std::exp2(-2.0 * drop / 16) / (2 * std::log(2.0));
  };
  for (int32_t t = -96; t <= 16; ++t) {
    // Where the class is met exactly, or nearly: drops that make t + drop a multiple of 4.
    double least = 1e9;
    for (int32_t drop = -16; drop <= 64; ++drop) {
      if ((t + drop) % 4 == 0) least = std::min(least, price(t, drop));
    }
    const int32_t drop = step_drop(t), near = drop - ((t + drop) % 4 + 6) % 4 + 2;
    REQUIRE((t + near) % 4 == 0);
    REQUIRE(std::abs(near - drop) <= 2);
    CHECK(price(t, near) < least * 1.01 + 1e-4);
  }
}

TEST_CASE("steps by class: one float32 product and a power of two, from 2^-126 on") {
  const ClassSteps steps = class_steps(3.0F, 16);
  CHECK(steps[0] == 3.0F);                                              // t = 16
  CHECK(steps[2] == 3.0F * static_cast<float>(std::exp2(-1.0 / 16)));   // t = 0
  CHECK(steps[9] == 3.0F * static_cast<float>(std::exp2(-14.0 / 16)));  // t = -56: (56 - 13) / 3 = 14
  for (const float step : class_steps(0x1p-120F, -1000)) CHECK(step == 0x1p-126F);
}

TEST_CASE("steps by class: errors sum to what was asked, and the base is that of D0") {
  std::vector<float> x;
  for (size_t i = 0; i < 128 * 64; ++i) {
    const auto row = static_cast<float>(i / 64 % 16), col = static_cast<float>(i % 64);
    x.push_back(std::ldexp(1 + col / 64, -static_cast<int>(row)));
  }
  const VectorTensor tensor(x, 64);
  Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  inputs.size = tensor.size();
  inputs.rows = 128;
  for (const double nmse : {1e-6, 0.01, 0.3, 10.0}) {
    LineScales scales = LineScales::measure(tensor, inputs);
    const double squares = squares_of(x);
    const float d0 = fit_class_steps(scales, squares, nmse);
    const ClassSteps steps = class_steps(d0, scales.base());
    const std::vector<uint64_t> counts = scales.counts_of_sums();
    double noise = 0;
    for (size_t sum = 0; sum < steps.size(); ++sum) {
      noise += static_cast<double>(counts[sum]) * std::pow(static_cast<double>(steps[sum]), 2) / 12;
    }
    CHECK(noise == Approx(nmse * squares).epsilon(0x1p-21));
    const int32_t base = scales.base();
    scales.set_step(static_cast<double>(d0));
    CHECK(scales.base() == base);
  }
}
