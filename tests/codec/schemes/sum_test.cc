// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/summable.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

const Inputs kInputs{Random({1, {}, {}}, 0), kFirstStage, 4096};

std::unique_ptr<Decoder> restored(std::string_view text, const Summands& summands, const Inputs& inputs = kInputs) {
  const Bytes bytes = stored_sum(summands);
  ByteReader stored(bytes, "stored");
  auto decoder = parse_stored_scheme(text).restore(stored, inputs);
  stored.expect_end();
  return decoder;
}

template <typename T>
std::vector<float> decoded(const Decoder& decoder, const std::vector<T>& sums, size_t n, const Summands& summands) {
  Code code;
  if constexpr (std::is_same_v<T, double>) {
    put_sums(std::span(sums), code.streams);
  } else {
    put_sums(std::span(sums), summands, code.streams);
  }
  const StreamShapes shapes = decoder.streams(code, {0, n});
  REQUIRE(shapes.size() == code.streams.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    CHECK(shapes[i].alphabet == code.streams[i].alphabet);
    CHECK(shapes[i].count == code.streams[i].count());
  }
  std::vector<float> out(n);
  decoder.decode(code, {0, n}, out);
  return out;
}

}  // namespace

TEST_CASE("sum: an example by hand") {
  // Two messages, steps 3 and 0.5: 2 * 3 - 1 * 0.5, 0, and 6 steps of 0.5; halves of them.
  const Summands summands{.steps = {3, 0.5F}, .max_level = 6, .weight = 2, .factor = 0.5};
  const auto decoder = restored("sum", summands);
  const std::vector<int32_t> sums = {2, 0, 0, -1, 0, 6};
  CHECK(decoded(*decoder, sums, 3, summands) == std::vector<float>{2.75F, 0, 1.5F});
  CHECK(decoder->describe() == "mean of 2 messages, steps 3 to 0.5, M 6");
  CHECK(decoder->stored() == stored_sum(summands));
}

TEST_CASE("sum: a step times an integer is rounded once, with the factor") {
  const Summands summands{.steps = {0.1F}, .max_level = 30, .weight = 3, .factor = 1.0 / 3};
  const auto decoder = restored("sum", summands);
  const std::vector<int32_t> sums = {1, -29, 30};
  std::vector<float> expected;
  for (const int32_t sum : sums) expected.push_back(static_cast<float>(sum * static_cast<double>(0.1F) * (1.0 / 3)));
  CHECK(decoded(*decoder, sums, 3, summands) == expected);
}

TEST_CASE("sum: of values, float64 comes back to the bit") {
  const Summands summands{.kind = Summands::values, .weight = 3};
  const auto decoder = restored("sum:of=values", summands);
  const std::vector<double> sums = {-16.0 / 3, 0, 0x1.123456789ABCDp-300, 1e38};
  CHECK(decoded(*decoder, sums, 4, summands) == std::vector<float>{-16.0F / 3, 0, 0, 1e38F});
  Code code;
  put_sums(std::span(sums), code.streams);
  std::vector<double> again(4);
  decoder->summable()->add_values(code, 1, again);
  CHECK(again == sums);
}

TEST_CASE("sum: what no sum has is refused") {
  const auto refused = [](const Summands& summands, const Inputs& inputs = kInputs) {
    CHECK_THROWS_WITH(restored("sum", summands, inputs), Catch::Contains("at its byte"));
  };
  refused({.steps = {1}, .weight = 0});
  refused({.steps = {1}, .weight = kMaxSummed + 1});
  refused({.steps = {1}, .weight = 2, .factor = 0.25});
  refused({.steps = {1}, .max_level = 32768});
  refused({.steps = {}});
  refused({.steps = {1, 1}});
  refused({.steps = {1, 2}});
  refused({.steps = {1, 0}});
  refused({.steps = {0x1p126F}, .max_level = 3});
  // A scheme that stands over it has to add such values up.
  Inputs below = kInputs;
  below.stage = 1;
  refused({.steps = {0x1p100F}, .max_level = 1000}, below);
  restored("sum", {.steps = {0x1p100F}, .max_level = 1000});

  const auto decoder = restored("sum", {.steps = {0, 0}, .max_level = 3});
  const std::vector<int32_t> sums = {0, 1};
  CHECK_THROWS_WITH(decoded(*decoder, sums, 1, {.steps = {0, 0}, .max_level = 3}), Catch::Contains("not 0"));
  const auto values = restored("sum:of=values", {.kind = Summands::values});
  for (const double value : {-0.0, 1e39, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(decoded(*values, std::vector<double>{value}, 1, {}), Error);
  }
}

TEST_CASE("sum: of tables, an example by hand") {
  // One row of one column, of one element: whatever its sign, the cell says the element. 3 of 3 messages' units of 1/2.
  Bytes bytes = stored_sum({.kind = Summands::tables, .weight = 3, .factor = 1.0 / 3});
  for (const int byte : {1, 1, 7}) bytes.push_back(static_cast<std::byte>(byte));  // a column, a byte, 7 units
  Inputs inputs = kInputs;
  inputs.size = 1;
  const SchemeChoice choice = parse_stored_scheme("sum:of=tables/countsketch:rows=1,value=i64,exp=1");
  ByteReader stored(bytes, "stored");
  const auto decoder = choice.restore(stored, inputs);
  CHECK(decoder->describe() == "mean of 3 messages, 1 rows of 1, units of 2^-1");
  CHECK(decoder->stored() == bytes);
  CHECK(!decoder->is_digested());
  std::vector<float> out(1);
  decoder->decode({}, {0, 1}, out);
  CHECK(std::fabs(out[0]) == static_cast<float>(3.5 * (1.0 / 3)));
  CHECK(choice.draws());

  inputs.stage = 1;
  ByteReader below(bytes, "stored");
  CHECK_THROWS_WITH(choice.restore(below, inputs), Catch::Contains("below another scheme"));
  for (const char* text : {"sum/countsketch:rows=1,value=i64,exp=1", "sum:of=tables", "sum:of=tables/maxnorm"}) {
    ByteReader again(bytes, "stored");
    CHECK_THROWS_WITH(parse_stored_scheme(text).restore(again, kInputs), Catch::Contains("no sketches"));
  }
}

TEST_CASE("sum: no dump is coded by it") {
  CHECK_THROWS_WITH(parse_scheme("sum"), Catch::Contains("aggregate makes"));
  CHECK_THROWS_WITH(parse_scheme("randk:k=1/sum:of=values"), Catch::Contains("aggregate makes"));
  CHECK(parse_stored_scheme("randk:shared=yes/sum:of=values").stored_text() == "randk:shared=yes/sum:of=values");
}
