// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/truncated.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/edges.h"
#include "codec/levels/power_law_values.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kChunk = 4096;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Inputs inputs_of(uint64_t seed, Nonfinite nonfinite = Nonfinite::error) {
  return {Random({seed, {}, {}}, 0), kFirstStage, kChunk, nonfinite};
}

std::unique_ptr<Encoder> prepared(const VectorTensor& tensor, const std::string& text,
                                  Nonfinite nonfinite = Nonfinite::error) {
  return parse_scheme(text).prepare(tensor, inputs_of(1, nonfinite));
}

std::vector<float> stored_floats(const Bytes& stored) {
  ByteReader reader(stored, "stored");
  std::vector<float> values;
  while (reader.left() > 0) values.push_back(reader.get<float>());
  return values;
}

Bytes bytes_of(std::initializer_list<float> values) {
  Bytes out;
  for (const float value : values) put(out, value);
  return out;
}

std::unique_ptr<Decoder> restored(const std::string& text, ByteView bytes) {
  ByteReader stored(bytes, "stored");
  auto decoder = parse_stored_scheme(text).restore(stored, inputs_of(1));
  stored.expect_end();
  return decoder;
}

// Mean magnitude 1, so that the levels are those of the unit Laplace law; the largest is far beyond.
const std::vector<float> kUnitMean = {0.25F, -1.75F, 5, 0, 0, 0, 0};

}  // namespace

// 3 bits: levels 0.2951, 0.9899, 1.8957, 3.1995. 0.25 has the variance 0.2951^2 - 0.25^2; -1.75, (1.75 - 0.9899)(1.8957
// - 1.75); 5 none; 0, 0.2951^2 each.
TEST_CASE("tnqsgd for a Laplace law, by hand") {
  const VectorTensor tensor(kUnitMean);
  const auto encoder = prepared(tensor, "tnqsgd:bits=3");
  const std::vector<float> levels = stored_floats(encoder->decoder().stored());
  CHECK(levels == std::vector<float>{0.295100194492F, 0.989892881025F, 1.895691519345F, 3.199464044747F});
  const Promise promise = encoder->promise();
  CHECK(promise.unbiased);
  REQUIRE(promise.target != nullptr);
  std::vector<float> room(7);
  const auto limited = promise.target->read({0, 7}, room);
  CHECK(std::vector<float>(limited.begin(), limited.end()) ==
        std::vector<float>{0.25F, -1.75F, 3.199464044747F, 0, 0, 0, 0});
  const double zero = std::pow(0.295100194492, 2);
  const double whole = zero - 0.0625 + (1.75 - 0.989892881025) * (1.895691519345 - 1.75) + 4 * zero;
  CHECK(*promise.variance == Approx(whole).epsilon(1e-6));

  Code code;
  std::vector<float> decoded(7);
  encoder->encode({0, 7}, code, decoded);
  CHECK(decoded[2] == levels[3]);  // always
  CHECK(code.streams[0].alphabet == 8);
  CHECK(code.streams[0].symbols[2] == 7);
  CHECK(std::fabs(decoded[3]) == levels[0]);

  std::vector<Law> laws(7);
  encoder->decoder().laws(code, {0, 7}, limited, laws);
  CHECK(laws[0].kind == Law::two);
  CHECK(laws[0].f == Approx((0.25 + 0.295100194492) / (2 * 0.295100194492)).epsilon(1e-6));
  CHECK(laws[2].kind == Law::point);
}

TEST_CASE("a threshold beyond the largest value is that value, and nothing is cut off") {
  for (const std::string text :
       {"tnqsgd:bits=8", "tqsgd:bits=8,density=laplace", "tnqsgd:bits=8,density=powerlaw,rule=exact", "tbqsgd:bits=8",
        "tqsgd:bits=8", "tqsgd:bits=8,rule=exact", "tbqsgd:bits=8,rule=exact"}) {
    std::vector<float> x;
    for (int i = -100; i <= 100; ++i) x.push_back(static_cast<float>(i) * 0.01F);
    const VectorTensor tensor(x);
    const auto encoder = prepared(tensor, text);
    INFO(text);
    CHECK(encoder->promise().target == nullptr);
    Code code;
    std::vector<float> decoded(x.size());
    encoder->encode({0, x.size()}, code, decoded);
    CHECK(code.streams[0].symbols.back() >= 254);
  }
  // 6 units of a Laplace law, between the levels of the whole.
  const VectorTensor tensor({6, 0, 0, 0, 0, 0});
  const std::vector<float> levels = stored_floats(prepared(tensor, "tnqsgd:bits=8")->decoder().stored());
  REQUIRE(levels.size() == 128);
  CHECK(levels.back() == 6);
  const double covered = 1 - std::exp(-2.0);
  for (size_t i = 0; i < 128; ++i) {
    const double j = 2.0 * static_cast<double>(i) + 1;
    CHECK(static_cast<double>(levels[i]) == Approx(-3 * std::log(1 - j / 255 * covered)).epsilon(1e-6));
  }
}

TEST_CASE("tqsgd stores half an interval, whose odd multiples are its levels") {
  const VectorTensor tensor(kUnitMean);
  const auto encoder = prepared(tensor, "tqsgd:bits=2,density=laplace");
  const std::vector<float> stored = stored_floats(encoder->decoder().stored());
  REQUIRE(stored.size() == 1);
  CHECK(static_cast<double>(stored[0]) == Approx(1.6790 / 3).epsilon(5e-5));  // W(9) / 3
  Code code;
  std::vector<float> decoded(7);
  encoder->encode({0, 7}, code, decoded);
  CHECK(decoded[2] == 3 * stored[0]);
  CHECK((decoded[1] == -3 * stored[0]));
  CHECK(std::fabs(decoded[4]) == stored[0]);

  // Rounded up where nothing is cut off: 0.3 * 255 multiples of 0.3 / 255 would fall short.
  for (const float max : {0.3F, 0.7F, 1.1F, 1e-30F, 0x1p126F}) {
    const VectorTensor one({max, max, -max});
    const auto whole = prepared(one, "tqsgd:bits=8");
    CHECK(whole->promise().target == nullptr);
    const float half_step = stored_floats(whole->decoder().stored())[0];
    CHECK(255 * half_step >= max);
    CHECK(255 * half_step <= max * (1 + 0x1p-20F));
    CHECK_NOTHROW(restored("tqsgd:bits=8", whole->decoder().stored()));
  }
}

TEST_CASE("tbqsgd has two spacings") {
  const VectorTensor tensor(varied(10001));
  const std::vector<float> levels = stored_floats(prepared(tensor, "tbqsgd:bits=4")->decoder().stored());
  REQUIRE(levels.size() == 8);
  // Between odd multiples of one half step, then of another step.
  const float inner = 2 * levels[0];
  size_t at = 0;
  while (at + 1 < levels.size() && std::fabs(levels[at + 1] - levels[at] - inner) < inner * 1e-5F) ++at;
  REQUIRE(at < levels.size() - 1);
  const float outer = levels[at + 1] - levels[at];
  CHECK(outer > inner);
  for (; at + 1 < levels.size(); ++at) CHECK(levels[at + 1] - levels[at] == Approx(outer).epsilon(1e-5));
  CHECK_THROWS_AS(parse_scheme("tbqsgd:bits=1"), Error);
}

TEST_CASE("the rules differ, and only in what is cut off") {
  const VectorTensor tensor(power_law_values(20000, 4, 0.05));
  for (const std::string scheme : {"tqsgd:bits=4", "tnqsgd:bits=4,density=powerlaw", "tbqsgd:bits=4"}) {
    std::vector<float> tops;
    for (const std::string rule : {"paper", "mse", "exact"}) {
      const auto encoder = prepared(tensor, scheme + ",rule=" + rule);
      CHECK(encoder->decoder().stored().size() == (scheme[1] == 'q' ? 4 : 32));
      const float last = stored_floats(encoder->decoder().stored()).back();
      tops.push_back(scheme[1] == 'q' ? 15 * last : last);
    }
    INFO(scheme);
    CHECK(tops[0] < tops[1]);  // a dearer interval makes a lower threshold
    if (scheme[1] != 'q') CHECK(tops[1] < tops[2]);
  }
  // For Laplace's law and the best density, the closed form is exact.
  CHECK(prepared(tensor, "tnqsgd:bits=4,rule=mse")->decoder().stored() ==
        prepared(tensor, "tnqsgd:bits=4,rule=exact")->decoder().stored());
}

TEST_CASE("where all values are zero there are no levels") {
  for (const std::string text : {"tnqsgd:bits=4", "tqsgd:bits=1", "tbqsgd:bits=2"}) {
    for (const std::vector<float>& x : {std::vector<float>{}, {0}, {-0.0F, 0, -0.0F}}) {
      const VectorTensor tensor(x);
      const RoundTrip trip = round_trip(tensor, text, {1, {}, {}});
      CHECK(trip.stored == bytes_of({0}));
      for (const float value : trip.decoded) CHECK(std::bit_cast<uint32_t>(value) == 0);
      const auto encoder = prepared(tensor, text);
      CHECK(*encoder->promise().variance == 0);
      CHECK(encoder->promise().target == nullptr);
    }
    const VectorTensor kept({0, kNan, 0});
    const RoundTrip trip = round_trip(kept, text, {1, {}, {}}, kChunk, Nonfinite::keep);
    CHECK(trip.stored == bytes_of({0}));
    CHECK(std::isnan(trip.decoded[1]));
  }
}

TEST_CASE("levels are equal steps where there is no tail, and where values are too small for others") {
  for (const std::string text : {"tnqsgd:bits=2,density=powerlaw", "tbqsgd:bits=2"}) {
    const VectorTensor constant(std::vector<float>(30, -0.75F));
    CHECK(stored_floats(prepared(constant, text)->decoder().stored()) == std::vector<float>{0.25F, 0.75F});
    CHECK(prepared(constant, text)->promise().target == nullptr);
  }
  for (const std::string text : {"tnqsgd:bits=8", "tnqsgd:bits=8,density=powerlaw", "tbqsgd:bits=8"}) {
    const VectorTensor tiny({1e-45F, 1e-40F, -1e-45F, 3e-45F, 1e-39F});
    const auto encoder = prepared(tiny, text);
    const std::vector<float> levels = stored_floats(encoder->decoder().stored());
    REQUIRE(levels.size() == 128);
    for (size_t i = 0; i < levels.size(); ++i) CHECK(levels[i] == static_cast<float>(2 * i + 1) * 0x1p-126F);
    CHECK(encoder->promise().target == nullptr);
  }
}

TEST_CASE("stored levels that no encoder writes are refused") {
  CHECK_NOTHROW(restored("tnqsgd:bits=2", bytes_of({0.25F, 0.75F})));
  CHECK_NOTHROW(restored("tnqsgd:bits=1", bytes_of({0.25F})));
  CHECK_NOTHROW(restored("tbqsgd:bits=2", bytes_of({0})));
  for (const std::string text : {"tnqsgd:bits=2", "tbqsgd:bits=2"}) {
    for (const auto& bad : {bytes_of({0.75F, 0.25F}), bytes_of({0.25F, 0.25F}), bytes_of({-0.25F, 0.25F}),
                            bytes_of({-0.0F, 1}), bytes_of({0, 1}), bytes_of({kNan, 1}), bytes_of({0.5F, kNan}),
                            bytes_of({1, std::numeric_limits<float>::infinity()}), bytes_of({1e-40F, 1}),
                            bytes_of({1, 1e38F}), bytes_of({0.25F}), bytes_of({0.25F, 0.5F, 1}), Bytes{}}) {
      CHECK_THROWS_AS(restored(text, bad), Error);
    }
  }
  for (const float good : {0.0F, 0x1p-126F, 1.0F, 0x1p127F / 255}) {
    CHECK_NOTHROW(restored("tqsgd:bits=8", bytes_of({good})));
  }
  for (const float bad : {-0.0F, -1.0F, 1e-40F, 0x1p120F, 3e38F, kNan, std::numeric_limits<float>::infinity()}) {
    INFO(bad);
    CHECK_THROWS_AS(restored("tqsgd:bits=8", bytes_of({bad})), Error);
  }
  CHECK_THROWS_AS(restored("tqsgd:bits=2", bytes_of({1, 2})), Error);
}

TEST_CASE("only the number of levels is in the stored text of truncated quantizers") {
  CHECK(parse_scheme("tnqsgd:bits=3,density=powerlaw,rule=exact").stored_text() == "tnqsgd:bits=3");
  CHECK(parse_scheme("tqsgd:density=laplace,bits=1,rule=mse").stored_text() == "tqsgd:bits=1");
  CHECK(parse_scheme("tbqsgd:bits=8").stored_text() == "tbqsgd:bits=8");
  CHECK_THROWS_AS(parse_scheme("tnqsgd:bits=9"), Error);
  CHECK_THROWS_AS(parse_scheme("tnqsgd"), Error);
  CHECK_THROWS_AS(parse_scheme("tnqsgd:bits=3,rule=best"), Error);
  CHECK_THROWS_AS(parse_scheme("tbqsgd:bits=3,density=laplace"), Error);
}

// The sums over many seeds, within six standard deviations of each.
TEST_CASE("truncated quantizers are unbiased for the limited values, with the variance promised") {
  const VectorTensor tensor(varied(10001));
  for (const std::string text : {"tnqsgd:bits=1", "tnqsgd:bits=3", "tqsgd:bits=2", "tbqsgd:bits=4",
                                 "tnqsgd:bits=8,density=powerlaw,rule=exact"}) {
    INFO(text);
    const auto encoder = prepared(tensor, text);
    const Promise promise = encoder->promise();
    const Tensor& target = promise.target != nullptr ? *promise.target : tensor;
    std::vector<float> room(tensor.size());
    const auto x = target.read({0, tensor.size()}, room);
    constexpr uint64_t kTrials = 60;
    double bias = 0, squares = 0;
    for (uint64_t seed = 0; seed < kTrials; ++seed) {
      const RoundTrip trip = round_trip(tensor, text, {seed, {}, {}});
      for (size_t i = 0; i < x.size(); ++i) {
        const double error = static_cast<double>(trip.decoded[i]) - static_cast<double>(x[i]);
        bias += error;
        squares += error * error;
      }
    }
    const double expected = kTrials * *promise.variance;
    CHECK(std::fabs(bias) < 6 * std::sqrt(expected));
    CHECK(std::fabs(squares - expected) < 6 * std::sqrt(expected) * *promise.max_error);
  }
}
