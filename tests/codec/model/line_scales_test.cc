// SPDX-License-Identifier: Apache-2.0
#include "codec/model/line_scales.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "codec/support.h"

using namespace gradcodec;

namespace {

// 64 rows of 64 values: rows of magnitude 8, 4, 1 and 0 in turn, columns of 1 and 2; signs in turn.
VectorTensor product() {
  constexpr std::array<float, 4> kRows = {8, 4, 1, 0};
  std::vector<float> x;
  for (size_t row = 0; row < 64; ++row) {
    for (size_t col = 0; col < 64; ++col) {
      x.push_back(kRows[row % 4] * (col % 2 == 0 ? 1.0F : 2.0F) * (col % 3 == 0 ? -1.0F : 1.0F));
    }
  }
  return {x, 64};
}

Inputs inputs_of(const Tensor& tensor, uint64_t chunk_len = 4096) {
  Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, chunk_len};
  inputs.size = tensor.size();
  inputs.rows = rows_of(tensor.shape());
  return inputs;
}

std::vector<int32_t> sums_of(const LineScales& scales, Range range) {
  std::array<int32_t, LineScales::kSums> of_sum;
  std::iota(of_sum.begin(), of_sum.end(), 0);
  std::vector<int32_t> out(range.count);
  scales.fill<int32_t>(range, of_sum, -1, out);
  return out;
}

}  // namespace

TEST_CASE("log2 in whole units is log2") {
  for (double x = 1e-60; x < 1e60; x *= 1.7) CHECK(fixed_log2_of(x) / 65536.0 == Approx(std::log2(x)).margin(0x1p-14));
}

TEST_CASE("line scales: half octaves below the largest row and column, and zero") {
  const VectorTensor tensor = product();
  LineScales scales = LineScales::measure(tensor, inputs_of(tensor));
  REQUIRE(scales.has_lines());
  const std::vector<int32_t> sums = sums_of(scales, {0, 256});
  CHECK(sums[0] == 2);        // a row of 8, a column of 1 where the largest is 2: one octave
  CHECK(sums[1] == 0);        // the largest
  CHECK(sums[64] == 4);       // 4 instead of 8
  CHECK(sums[2 * 64] == 8);   // 1 instead of 8: three octaves
  CHECK(sums[3 * 64] == -1);  // a row of zeros
  CHECK(sums_of(scales, {70, 3}) == std::vector<int32_t>{4, 2, 4});
  // 16 elements in every 64 x 64 / (4 * 2) have no scale... a quarter of all.
  const std::vector<uint64_t> counts = scales.counts_of_sums();
  CHECK(counts[0] == 512);
  CHECK(counts[2] == 1024);  // 8 and 1, 4 and 2
  CHECK(std::accumulate(counts.begin(), counts.end(), uint64_t{0}) == 3072);
}

TEST_CASE("line scales: the base is the largest scale over the step") {
  const VectorTensor tensor = product();
  LineScales scales = LineScales::measure(tensor, inputs_of(tensor));
  // 1.25 times the mean magnitude (13 / 4 * 3 / 2), times the largest row's class over the mean's (8 / (13 / 4), 2.6
  // half octaves: 3) and the largest column's (2 / (3 / 2), 0.8: 1): 4 half octaves.
  scales.set_step(1);
  const double expected = 16 * (std::log2(1.25 * 13 / 4 * 3 / 2) + 2);
  CHECK(scales.base() == std::lround(expected));
  scales.set_step(4);
  CHECK(scales.base() == std::lround(expected) - 32);
}

TEST_CASE("line scales: how a tensor is cut changes nothing here, where sums are exact") {
  const VectorTensor tensor = product();
  Bytes expected;
  for (const uint64_t chunk_len : {4096, 1000, 64, 7}) {
    LineScales scales = LineScales::measure(tensor, inputs_of(tensor, chunk_len));
    scales.set_step(0.5);
    Bytes stored;
    scales.write(stored);
    if (expected.empty()) expected = stored;
    CHECK(stored == expected);
    ByteReader in(stored, "stored");
    const LineScales restored = LineScales::restore(in, inputs_of(tensor));
    in.expect_end();
    CHECK(restored.base() == scales.base());
    CHECK(sums_of(restored, {0, 4096}) == sums_of(scales, {0, 4096}));
  }
}

TEST_CASE("line scales: one class where there are no rows, or too few elements for them") {
  const VectorTensor flat(product().values());
  CHECK_FALSE(LineScales::measure(flat, inputs_of(flat)).has_lines());
  const VectorTensor small(std::vector<float>(100, 1.0F), 10);
  LineScales scales = LineScales::measure(small, inputs_of(small));
  CHECK_FALSE(scales.has_lines());
  scales.set_step(1);
  CHECK(scales.base() == 5);  // 16 log2 1.25
  Bytes stored;
  scales.write(stored);
  CHECK(stored == Bytes{std::byte{10}});
  CHECK(sums_of(scales, {0, 100}) == std::vector<int32_t>(100, 0));
}

TEST_CASE("line scales: lines are left out where they do not pay") {
  const VectorTensor even(std::vector<float>(4096, 1.0F), 64);
  LineScales scales = LineScales::measure(even, inputs_of(even));
  scales.set_step(1);
  CHECK_FALSE(scales.lines_pay());
  LineScales uneven = LineScales::measure(product(), inputs_of(product()));
  uneven.set_step(1);
  CHECK(uneven.lines_pay());
  uneven.forget_lines();
  uneven.set_step(1);
  Bytes stored;
  uneven.write(stored);
  ByteReader in(stored, "stored");
  CHECK_FALSE(LineScales::restore(in, inputs_of(product())).has_lines());
  in.expect_end();
}

TEST_CASE("line scales: what a decoder must refuse") {
  const VectorTensor tensor = product();
  LineScales scales = LineScales::measure(tensor, inputs_of(tensor));
  scales.set_step(1);
  Bytes stored;
  scales.write(stored);
  for (size_t size = 0; size < stored.size(); ++size) {
    ByteReader cut(ByteView(stored).first(size), "stored");
    CHECK_THROWS_AS(LineScales::restore(cut, inputs_of(tensor)), Error);
  }
  Bytes far;
  put_varint(far, 32769);
  put_varint(far, 0);
  ByteReader in(far, "stored");
  CHECK_THROWS_AS(LineScales::restore(in, inputs_of(tensor)), Error);
}
