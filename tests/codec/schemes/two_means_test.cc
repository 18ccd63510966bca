// sign and onebit.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

double error_of(const std::vector<float>& x, const std::vector<float>& decoded) {
  double error = 0;
  for (size_t i = 0; i < x.size(); ++i)
    error += std::pow(static_cast<double>(decoded[i]) - static_cast<double>(x[i]), 2);
  return error;
}

}  // namespace

TEST_CASE("sign: the mean magnitude with the sign of each value, that of 0 being +") {
  const std::vector<float> x = {2, -1, 0, 1};
  const OneChunk chunk = one_chunk(VectorTensor(x), "sign");
  CHECK(chunk.decoded == std::vector<float>{1, -1, 1, 1});
  CHECK(chunk.code.streams[0].symbols == std::vector<uint16_t>{0, 1, 0, 0});
  CHECK(*chunk.promise.variance == 2);  // 6 - 16 / 4
  CHECK(*chunk.promise.delta == Approx(16.0 / (4 * 6)).epsilon(1e-5));
  CHECK_FALSE(chunk.promise.unbiased);
  CHECK(chunk.promise.projection);
}

TEST_CASE("onebit: the means of both sides, and with the residual added, of the next step") {
  const OneChunk first = one_chunk(VectorTensor({1, -2, 3, -4}), "onebit");
  CHECK(first.decoded == std::vector<float>{2, -3, 2, -3});
  CHECK(first.code.streams[0].symbols == std::vector<uint16_t>{0, 1, 0, 1});
  const OneChunk second = one_chunk(VectorTensor({-.5F, 1.5F, -1, -1}), "onebit");
  CHECK(second.code.streams[0].symbols == std::vector<uint16_t>{1, 0, 1, 1});
  CHECK(second.decoded[0] == Approx(-2.5 / 3));
  CHECK(second.decoded[1] == 1.5F);
}

TEST_CASE("onebit is never worse than sign, keeps the sum, and both keep what they declare") {
  for (const std::vector<float>& x : {varied(3000), std::vector<float>(50, 0.7F), std::vector<float>{0, -0.0F, -1}}) {
    const VectorTensor tensor(x);
    const OneChunk two = one_chunk(tensor, "onebit"), one = one_chunk(tensor, "sign");
    double norm2 = 0, l1 = 0, sum = 0, decoded_sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      norm2 += std::pow(static_cast<double>(x[i]), 2);
      l1 += std::fabs(static_cast<double>(x[i]));
      sum += static_cast<double>(x[i]);
      decoded_sum += static_cast<double>(two.decoded[i]);
    }
    const double error_two = error_of(x, two.decoded), error_one = error_of(x, one.decoded);
    CHECK(error_two <= error_one * (1 + 1e-6) + 1e-12 * norm2);
    CHECK(error_one == Approx(norm2 - l1 * l1 / static_cast<double>(x.size())).margin(1e-6 * norm2));
    CHECK(decoded_sum == Approx(sum).margin(1e-6 * l1));
    CHECK(*two.promise.variance == Approx(error_two).margin(1e-12 * norm2));
    CHECK(error_two <= (1 - *two.promise.delta) * norm2 * (1 + 0x1p-20));
    CHECK(*one.promise.delta >= 1 / static_cast<double>(x.size()) * (1 - 1e-5));
  }
}

TEST_CASE("rows have means of their own, cut where chunks are") {
  const VectorTensor rows({1, 3, -2, -4, 5, 7, 9, -1, -1, 2, 2, 2}, 4);
  const RoundTrip whole = round_trip(rows, "onebit:axis=row", {1, {}, {}});
  CHECK(whole.decoded == std::vector<float>{2, 2, -3, -3, 7, 7, 7, -1, -1, 2, 2, 2});
  CHECK(whole.chunks[0].params.size() == 3 * 8);
  const RoundTrip cut = round_trip(rows, "onebit:axis=row", {1, {}, {}}, 6);  // in the middle of the second row
  CHECK(cut.decoded == std::vector<float>{2, 2, -3, -3, 6, 6, 9, -1, -1, 2, 2, 2});
  CHECK(cut.chunks[0].params.size() == 2 * 8);
  const RoundTrip signs = round_trip(rows, "sign:axis=row", {1, {}, {}});
  CHECK(signs.decoded[0] == 2.5F);
  CHECK(signs.decoded[4] == 5.5F);
  CHECK(signs.decoded[8] == -1.75F);
}

TEST_CASE("values that are kept count in no mean, of the tensor or of a row") {
  const float kept = 3e38F;
  const VectorTensor rows({1, 3, kept, -4, 5, 7, -kept, -1}, 4);
  const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  CHECK(one_chunk(rows, "onebit:axis=row", inputs).decoded == std::vector<float>{2, 2, kept, -4, 6, 6, -kept, -1});
  CHECK(one_chunk(rows, "onebit", inputs).decoded == std::vector<float>{4, 4, kept, -2.5F, 4, 4, -kept, -2.5F});
  CHECK(one_chunk(rows, "sign", inputs).decoded[0] == 3.5F);
}

// A chunk's exceptions are counted once, and not once a row: that would take hours here.
TEST_CASE("rows of one value, all of them kept") {
  constexpr size_t kRows = size_t{1} << 18;
  const VectorTensor rows(std::vector<float>(kRows, INFINITY), 1);
  for (const char* text : {"onebit:axis=row", "sign:axis=row"}) {
    const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, kRows, Nonfinite::keep};
    const OneChunk chunk = one_chunk(rows, text, inputs);
    CHECK(chunk.code.exceptions.size() == kRows);
    CHECK(chunk.decoded[kRows - 1] == INFINITY);
    CHECK(chunk.promise.variance == 0);
  }
}

TEST_CASE("means that no values have are refused") {
  const Inputs inputs{Random({1, {}, {}}, 0), kFirstStage, 4096};
  const auto restore = [&](const char* text, std::initializer_list<float> means) {
    Bytes stored;
    for (const float mean : means) put(stored, mean);
    ByteReader reader(stored, "stored");
    parse_stored_scheme(text).restore(reader, inputs);
  };
  CHECK_NOTHROW(restore("onebit", {1, -1}));
  CHECK_NOTHROW(restore("onebit", {0, 0}));
  CHECK_NOTHROW(restore("sign", {1e-45F}));
  CHECK_THROWS_AS(restore("onebit", {-1, -1}), Error);
  CHECK_THROWS_AS(restore("onebit", {1, 1}), Error);
  CHECK_THROWS_AS(restore("onebit", {-0.0F, -1}), Error);
  CHECK_THROWS_AS(restore("onebit", {1, -0.0F}), Error);
  CHECK_THROWS_AS(restore("sign", {NAN}), Error);
  CHECK_THROWS_AS(restore("sign", {INFINITY}), Error);
  Bytes none;
  put_varint(none, 0);
  ByteReader reader(none, "stored");
  CHECK_THROWS_AS(parse_stored_scheme("sign:axis=row").restore(reader, inputs), Error);
  const auto rows_of = [&](uint64_t row, uint64_t size) {
    Bytes rows;
    put_varint(rows, row);
    ByteReader in(rows, "stored");
    Inputs sized = inputs;
    sized.size = size;
    parse_stored_scheme("sign:axis=row").restore(in, sized);
  };
  CHECK_NOTHROW(rows_of(4, 12));
  CHECK_NOTHROW(rows_of(4, 0));
  CHECK_THROWS_AS(rows_of(5, 12), Error);
  CHECK_THROWS_AS(rows_of(24, 12), Error);
  // A symbol for a mean that there is not.
  Bytes stored;
  put(stored, 1.0F);
  put(stored, 0.0F);
  ByteReader means(stored, "stored");
  const auto decoder = parse_stored_scheme("onebit").restore(means, inputs);
  Code code;
  code.streams = {{2, {0, 1}, {}}};
  std::vector<float> out(2);
  CHECK_THROWS_AS(decoder->decode(code, {0, 2}, out), Error);
  // Of rows, the number in the chunk is told.
  Bytes row;
  put_varint(row, 1);
  ByteReader length(row, "stored");
  const auto of_rows = parse_stored_scheme("onebit:axis=row").restore(length, inputs);
  for (const float mean : {1.0F, 0.0F, 1.0F, 0.0F}) put(code.params, mean);
  CHECK_THROWS_WITH(of_rows->decode(code, {0, 2}, out), Catch::Contains("row 1 of the chunk"));
  code.params.resize(8);
  for (const float mean : {-1.0F, 0.0F}) put(code.params, mean);
  CHECK_THROWS_WITH(of_rows->decode(code, {0, 2}, out), Catch::Contains("row 1 of the chunk"));
}
