// What bench measures on, and that it notices wrong values.
// SPDX-License-Identifier: Apache-2.0
#include "format/speed.h"

#include <catch2/catch.hpp>

#include "codec/random.h"
#include "format/speed_input.h"
#include "mutants/mutants.h"

using namespace gradcodec;

namespace {

uint32_t word(uint32_t stream, uint64_t i) {
  return philox({1, 0}, {static_cast<uint32_t>(i / 4), 0, stream, 0})[i % 4];
}

// As kMadeInput says.
double made_value(uint64_t i) {
  const uint32_t bytes = word(0, i), factor = word(1, i) >> 8;
  const double bell = (bytes & 0xFF) + (bytes >> 8 & 0xFF) + (bytes >> 16 & 0xFF) + (bytes >> 24) - 510.0;
  const double scale = 0x1p-11 / (1 << (word(2, i / 4096) & 3));
  return bell * ((factor + 0.5) * 0x1p-24) * scale;
}

SpeedOptions options_for(const Scheme& scheme, const Params& params) {
  SpeedOptions options;
  options.schemes = {{&scheme, params}};
  options.coders = {&coder_named("pack")};
  options.repeats = 1;
  return options;
}

}  // namespace

TEST_CASE("the made input is what its description says") {
  const std::vector<float> values = made_input(20'000);
  REQUIRE(values.size() == 20'000);
  for (size_t i = 0; i < values.size(); ++i) {
    REQUIRE(static_cast<double>(values[i]) == Approx(made_value(i)).epsilon(1e-6).margin(0));
  }
}

TEST_CASE("a decoder that gives other values than the encoder said is a bug") {
  const std::vector<float> values = made_input(300'000);
  for (const unsigned threads : {1U, 2U}) {
    for (const bool misreports : {false, true}) {
      const Quantizer scheme("q", Dither::subtractive, misreports ? gradcodec::misreports() : Mutation{});
      SpeedOptions options = options_for(scheme, quantizer_params(5));
      options.threads = threads;
      Progress progress;
      if (misreports) {
        try {
          measure_speed(values, options, progress);
          FAIL("not noticed");
        } catch (const Error& error) {
          CHECK(error.code() == Exit::bug);
        }
      } else {
        CHECK(measure_speed(values, options, progress).rows.size() == 1);
        CHECK(progress.done == progress.total);
      }
    }
  }
}
