// What is learned of a tensor, whoever looks at which chunk.
// SPDX-License-Identifier: Apache-2.0
#include "codec/scan.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/error.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kChunk = 16;
constexpr size_t kSize = 20'005;  // more chunks than are looked at before they are added

// Jobs from the last to the first, as unlike the order of one thread as can be; then the exception of the smallest.
void backwards(uint64_t count, const Job& job) {
  std::exception_ptr error;
  for (uint64_t i = count; i-- > 0;) {
    try {
      job(i);
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

std::vector<float> some_values() {
  std::vector<float> x(kSize);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp((static_cast<float>(i * 7919 % 4001) - 2000) * 0.1F, static_cast<int>(i % 31) - 15);
  }
  return x;
}

Inputs inputs_with(const Loop& loop, Nonfinite policy = Nonfinite::error) {
  return {Random({1, {}, {}}, 0), kFirstStage, kChunk, policy, loop};
}

}  // namespace

TEST_CASE("sums are added in the order of the chunks, whoever made them") {
  const std::vector<float> x = some_values();
  const VectorTensor tensor(x);
  double squares = 0;
  float max = 0;
  for (size_t at = 0; at < x.size(); at += kChunk) {
    const auto chunk = std::span(x).subspan(at, std::min<size_t>(kChunk, x.size() - at));
    squares += squares_of(chunk);
    for (const float value : chunk) max = std::max(max, std::fabs(value));
  }
  double reversed = 0;
  for (size_t at = (x.size() - 1) / kChunk * kChunk + kChunk; at > 0; at -= kChunk) {
    reversed += squares_of(std::span(x).subspan(at - kChunk, std::min<size_t>(kChunk, x.size() - at + kChunk)));
  }
  REQUIRE(reversed != squares);  // else the order could not be seen
  for (const Loop& loop : {Loop(), Loop(backwards)}) {
    const Inputs inputs = inputs_with(loop);
    const Energy energy = scan_energy(tensor, inputs);
    CHECK(energy.squares == squares);
    CHECK(energy.extent.max == max);
    CHECK(energy.extent.irregular == 0);
    CHECK(scan_squares(tensor, inputs, 0.0) == squares);
    CHECK(scan_extent(tensor, inputs).max == max);
    CHECK(scan_deviation(tensor, inputs, 0) == scan_deviation(tensor, inputs_with({}), 0));
  }
}

TEST_CASE("the first value that is refused is named, whoever finds which") {
  std::vector<float> x = some_values();
  x[19'000] = x[333] = x[335] = std::numeric_limits<float>::infinity();
  const VectorTensor tensor(x);
  for (const Loop& loop : {Loop(), Loop(backwards)}) {
    CHECK_THROWS_WITH(scan_energy(tensor, inputs_with(loop)), Catch::Contains("element 333 "));
    CHECK_THROWS_WITH(scan_extent(tensor, inputs_with(loop)), Catch::Contains("element 333 "));
    CHECK(scan_energy(tensor, inputs_with(loop, Nonfinite::keep)).extent.irregular == 3);
  }
}
