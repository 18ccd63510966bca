// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/alq.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/levels/table.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

Inputs inputs() { return {Random({1, {}, {}}, 0), kFirstStage, 4096}; }

std::unique_ptr<Encoder> prepared(const Tensor& tensor, std::string_view text, std::span<const float> kept = {}) {
  Inputs with_levels = inputs();
  with_levels.kept_levels = kept;
  return parse_scheme(text).prepare(tensor, with_levels);
}

// About normal.
std::vector<float> bells(size_t n) {
  std::vector<uint32_t> words(12 * n);
  kernels::scalar::philox_words({{8, 9}, 0, 0}, 0, words.size(), words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < words.size(); ++i) x[i / 12] += static_cast<float>(words[i] >> 8) * 0x1p-24F - 0.5F;
  return x;
}

const std::string kFallback = "fallback to exponential levels";

bool falls_back(const std::vector<float>& values, std::string_view text = "alq:s=3") {
  const std::string told = prepared(VectorTensor(values), text)->decoder().describe();
  return told.find(kFallback) != std::string::npos;
}

}  // namespace

TEST_CASE("alq: levels fitted to normal values have less variance than powers of two") {
  const VectorTensor tensor(bells(8192));
  for (const std::string s : {"1", "3", "6", "14", "126"}) {
    INFO(s << " levels");
    const auto alq = prepared(tensor, "alq:s=" + s + ",bucket=4096");
    const auto amq = prepared(tensor, "amq:s=" + s + ",bucket=4096");
    CHECK(alq->decoder().stored().size() == 4 * std::stoul(s));
    CHECK(*alq->promise().variance <= *amq->promise().variance * 1.001);
    if (s != "126") {
      const auto nuq = prepared(tensor, "nuqsgd:s=" + s + ",bucket=4096");
      CHECK(*alq->promise().variance < *nuq->promise().variance / 2);
    }
  }
  // The truncated normal law of mean 0.8 and deviation 0.6 over sqrt(d) is near the half-normal one, so that the levels
  // are about those of the variance's least: checked by moving each a little.
  const auto best = prepared(tensor, "alq:s=3,bucket=4096");
  const std::span<const float> levels = best->decoder().fitted_levels();
  for (const float factor : {0.7F, 1.4F}) {
    std::vector<float> moved(levels.begin(), levels.end());
    for (float& level : moved) level *= factor;
    CHECK(*prepared(tensor, "alq:s=3,bucket=4096", moved)->promise().variance > *best->promise().variance);
  }
}

TEST_CASE("alq: where nothing that is fitted is better, powers of two") {
  std::vector<float> outlier(5000, 0.0F), two(5000, 0.0F);
  outlier[1234] = -7;
  two[7] = two[3000] = 0.25F;
  CHECK(falls_back({}));
  CHECK(falls_back({0}));
  CHECK(falls_back({3}));
  CHECK(falls_back(std::vector<float>(5000, 0.0F)));
  CHECK(falls_back(outlier));
  CHECK(!falls_back(bells(5000)));
  // A constant's levels are about its one r; a signed one is the same to them.
  CHECK(!falls_back(std::vector<float>(8192, -0.1F)));
  for (const auto& values : {std::vector<float>(8192, -0.1F), two}) {
    const VectorTensor tensor(values);
    CHECK(*prepared(tensor, "alq:s=3")->promise().variance <=
          *prepared(tensor, "nuqsgd:s=3,bucket=8192")->promise().variance);
  }
}

TEST_CASE("alq: levels that another tensor has are kept") {
  const VectorTensor first(bells(5000)), second(std::vector<float>(3000, 0.5F));
  const auto fitted = prepared(first, "alq:s=4");
  const std::vector<float> levels(fitted->decoder().fitted_levels().begin(), fitted->decoder().fitted_levels().end());
  REQUIRE(levels.size() == 4);
  const auto kept = prepared(second, "alq:s=4", levels);
  CHECK(kept->decoder().stored() == fitted->decoder().stored());
  CHECK_THROWS_WITH(prepared(second, "alq:s=5", levels), Catch::Contains("s = 5"));
  for (const std::vector<float>& wrong : {std::vector<float>{0.5F, 0.25F}, {0, 0.5F}, {0.5F, 1}, {0x1p-61F, 0.5F}}) {
    CHECK_THROWS_WITH(prepared(second, "alq:s=2", wrong), Catch::Contains("increase"));
  }
}

TEST_CASE("alq: stored levels that no encoder writes are refused") {
  const SchemeChoice choice = parse_stored_scheme("alq:s=2");
  const auto restored = [&](float first, float second) {
    Bytes bytes;
    put_magnitudes(bytes, std::vector<float>{first, second});
    ByteReader stored(bytes, "stored");
    return choice.restore(stored, inputs());
  };
  CHECK_NOTHROW(restored(0.25F, 0.5F));
  CHECK_NOTHROW(restored(0x1p-60F, 0.9999F));
  CHECK_THROWS_AS(restored(0.5F, 0.25F), Error);
  CHECK_THROWS_AS(restored(0.5F, 0.5F), Error);
  CHECK_THROWS_AS(restored(0, 0.5F), Error);
  CHECK_THROWS_AS(restored(-0.5F, 0.5F), Error);
  CHECK_THROWS_AS(restored(0.5F, 1), Error);
  CHECK_THROWS_AS(restored(0.5F, 0x1.fffffep-1F), Error);
  CHECK_THROWS_AS(restored(0x1p-61F, 0.5F), Error);
  CHECK_THROWS_AS(restored(0.5F, std::nanf("")), Error);
}

TEST_CASE("alq: levels do not depend on who sums what") {
  const VectorTensor tensor(bells(40000));
  Inputs backwards = inputs();
  backwards.loop = [](uint64_t count, const Job& job) {
    for (uint64_t i = count; i-- > 0;) job(i);
  };
  for (const std::string text : {"alq:s=5,bucket=100", "amq:s=5,bucket=0"}) {
    const SchemeChoice choice = parse_scheme(text);
    CHECK(choice.prepare(tensor, backwards)->decoder().stored() ==
          choice.prepare(tensor, inputs())->decoder().stored());
  }
}
