// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/countsketch.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/edges.h"
#include "codec/sketch.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

Bytes stored_of(const std::vector<float>& x, std::string_view scheme, const MessageId& id, uint32_t ordinal = 0) {
  return round_trip(VectorTensor(x), scheme, id, 4096, Nonfinite::error, ordinal).stored;
}

Promise promise_of(const Tensor& tensor, std::string_view scheme) {
  Promise out = parse_scheme(scheme).prepare(tensor, {Random({1, {}, {}}, 0), kFirstStage, 4096})->promise();
  out.target = nullptr;
  return out;
}

double mean_square_error(const VectorTensor& tensor, const std::string& scheme, uint64_t steps) {
  double total = 0;
  for (uint64_t step = 0; step < steps; ++step) {
    const std::vector<float> said = round_trip(tensor, scheme, {1, {}, step}).decoded;
    for (size_t i = 0; i < said.size(); ++i) {
      const double e = static_cast<double>(said[i]) - static_cast<double>(tensor.values()[i]);
      total += e * e;
    }
  }
  return total / static_cast<double>(steps);
}

}  // namespace

// The words of four coordinates, of the step key of seed 1: what they say is worked out by hand from their digits.
TEST_CASE("countsketch by hand") {
  const kernels::Draws draws = Random({1, {}, {}}, 0).shared_draws(Purpose::hash, kFirstStage);
  std::vector<uint32_t> words(4);
  kernels::scalar::philox_words(draws, 0, 4, words.data());
  INFO(std::hex << words[0] << " " << words[1] << " " << words[2] << " " << words[3]);
  const std::vector<float> x = {1, 2, 4, 8};
  float cells[2] = {0, 0};
  for (size_t j = 0; j < 4; ++j) {
    // Of two columns the second highest bit is the bucket.
    cells[words[j] >> 30 & 1] += words[j] >= 0x80000000 ? -x[j] : x[j];
  }
  const RoundTrip out = round_trip(VectorTensor(x), "countsketch:rows=1,cols=2", {1, {}, {}});
  Bytes wanted = {std::byte{2}};
  put(wanted, cells[0]);
  put(wanted, cells[1]);
  CHECK(out.stored == wanted);
  for (size_t j = 0; j < 4; ++j) {
    CHECK(out.decoded[j] == (words[j] >= 0x80000000 ? -1.0F : 1.0F) * cells[words[j] >> 30 & 1]);
  }
  CHECK(out.chunks.at(0).streams.empty());
  CHECK(out.chunks.at(0).params.empty());
}

TEST_CASE("workers of a step share hashes, steps do not; those of a run are the same in all") {
  const std::vector<float> x = varied(1000);
  const auto of = [&](std::string_view scheme, const MessageId& id) { return stored_of(x, scheme, id); };
  const std::string step = "countsketch:rows=3,cols=50", run = step + ",scope=run";
  CHECK(of(step, {7, 1, 5}) == of(step, {7, 2, 5}));
  CHECK(of(step, {7, 1, 5}) != of(step, {7, 1, 6}));
  CHECK(of(step, {7, 1, 5}) != of(step, {8, 1, 5}));
  CHECK(of(run, {7, 1, 5}) == of(run, {7, 2, 6}));
  CHECK(of(run, {7, {}, {}}) == of(run, {7, 2, 6}));
  CHECK(of(run, {7, 1, 5}) != of(run, {8, 1, 5}));
  CHECK(of(run, {7, 1, 5}) != of(step, {7, 1, 5}));
  CHECK(stored_of(x, run, {7, 1, 5}, 1) != of(run, {7, 1, 5}));
}

TEST_CASE("columns are no more than elements, and a share is of them") {
  const std::vector<float> x = varied(1000);
  const auto size = [&](std::string_view scheme) { return stored_of(x, scheme, {1, {}, {}}).size(); };
  CHECK(size("countsketch:rows=1,cols=5000") == 2 + 4 * 1000);
  CHECK(size("countsketch:rows=3,cols=1%") == 1 + 4 * 30);
  CHECK(stored_of({}, "countsketch:rows=3,cols=1%", {1, {}, {}}) == Bytes(1, std::byte{0}));
}

TEST_CASE("even rows, and an exponent of floats, are refused") {
  CHECK_THROWS_WITH(parse_scheme("countsketch:rows=4,cols=10"), Catch::Contains("must be odd"));
  CHECK_THROWS_WITH(parse_scheme("countsketch:rows=65,cols=10"), Catch::Contains("63"));
  CHECK_THROWS_WITH(parse_scheme("countsketch:rows=3,cols=10,exp=3"), Catch::Contains("value=i64"));
  CHECK(parse_scheme("countsketch:rows=3,cols=10,value=i64").stored_text() == "countsketch:rows=3,value=i64,exp=32");
  CHECK_THROWS_WITH(parse_stored_scheme("countsketch:rows=3,value=i64"), Catch::Contains("canonical"));
  CHECK_THROWS_AS(parse_stored_scheme("countsketch:rows=2"), Error);
}

TEST_CASE("whole numbers decode to the middle one, times the unit") {
  const std::vector<float> x = varied(5000);
  for (const std::string& text :
       {"countsketch:rows=1,cols=100%,value=i64,exp=149", "countsketch:rows=5,cols=7%,value=i64",
        "countsketch:rows=3,cols=1,value=i64,exp=0"}) {
    INFO(text);
    if (text.find("149") != std::string::npos) {
      CHECK_THROWS_WITH(round_trip(VectorTensor(x), text, {1, {}, {}}), Catch::Contains("would pass"));
      continue;
    }
    const RoundTrip out = round_trip(VectorTensor(x), text, {1, {}, {}});
    CHECK(same_bits(out.decoded, out.promised));
  }
  const RoundTrip least =
      round_trip(VectorTensor({0x1p-149F, 0}), "countsketch:rows=1,cols=2,value=i64,exp=149", {3, {}, {}});
  CHECK(std::fabs(least.decoded[0]) == 0x1p-149F);
}

TEST_CASE("exceptions are kept, and only those that are some") {
  const float inf = std::numeric_limits<float>::infinity();
  const VectorTensor tensor({1, inf, -1e38F, 2});
  const auto encoder = parse_scheme("countsketch:rows=1,cols=4")
                           .prepare(tensor, {Random({1, {}, {}}, 0), kFirstStage, 4096, Nonfinite::keep});
  Code code;
  encoder->encode({0, 4}, code, {});
  REQUIRE(code.exceptions.size() == 2);
  std::vector<float> out(4);
  encoder->decoder().decode(code, {0, 4}, out);
  CHECK(out[1] == inf);
  CHECK(out[2] == -1e38F);
  std::vector<Law> laws(4);
  encoder->decoder().laws(code, {0, 4}, out, laws);
  CHECK(laws[0] == Law());
  CHECK(laws[1] == Law::at(0));
  code.exceptions[0].bits = 0x3F800000;
  CHECK_THROWS_WITH(encoder->decoder().decode(code, {0, 4}, out), Catch::Contains("without need"));
  CHECK_FALSE(encoder->decoder().is_digested());
  CHECK(table_of(encoder->decoder()) != nullptr);
}

TEST_CASE("countsketch promises what its errors are", "[statistical]") {
  const VectorTensor tensor(varied(2000));
  double norm2 = 0;
  for (const float value : tensor.values()) norm2 += static_cast<double>(value) * static_cast<double>(value);
  for (const std::string& value : {"", ",value=i64,exp=40"}) {
    INFO(value);
    const Promise one = promise_of(tensor, "countsketch:rows=1,cols=64" + value);
    CHECK(one.unbiased);
    CHECK(one.symmetric);
    CHECK_FALSE(one.independent);
    CHECK(*one.variance == Approx(1999.0 / 64 * norm2));
    CHECK(*one.omega == Approx(1999.0 / 64));
    CHECK_FALSE(one.delta);
    // ||e||^2 = ||x'||^2 - 2 <x', x> + ||x||^2 is within about a part of sqrt(2 / 64) of its mean in each step.
    CHECK(mean_square_error(tensor, "countsketch:rows=1,cols=64" + value, 400) == Approx(*one.variance).epsilon(0.05));
  }
  for (const unsigned rows : {3U, 5U, 9U}) {
    const std::string text = "countsketch:rows=" + std::to_string(rows) + ",cols=64";
    const Promise many = promise_of(tensor, text);
    CHECK_FALSE(many.variance);
    CHECK(*many.omega == Approx(2.0 * rows / (rows + 1) * 1999 / 64));
    CHECK(mean_square_error(tensor, text, 50) < *many.omega * norm2);
  }
  // With as many columns as elements a row is a contraction of a little.
  CHECK(promise_of(VectorTensor({1, 2}), "countsketch:rows=1,cols=2").delta);
}

TEST_CASE("no element's error prefers a sign", "[statistical]") {
  const VectorTensor tensor(varied(300));
  constexpr int kSteps = 400;
  std::vector<int> balance(300);
  for (uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<float> said = round_trip(tensor, "countsketch:rows=5,cols=20", {9, {}, step}).decoded;
    for (size_t i = 0; i < said.size(); ++i) {
      balance[i] += said[i] > tensor.values()[i] ? 1 : said[i] < tensor.values()[i] ? -1 : 0;
    }
  }
  // Hoeffding, 10^-9 in all.
  const double limit = std::sqrt(2.0 * kSteps * std::log(2.0 * 300 / 1e-9));
  for (const int count : balance) CHECK(std::abs(count) < limit);
}
