// What must hold for every scheme, at its edges. A new scheme fails here until its edge texts are added.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "support.h"

using namespace gradcodec;

namespace {

// Texts that exercise each parameter's ends.
std::vector<std::string> edge_texts(const Scheme& scheme) {
  const std::map<std::string, std::vector<std::string>, std::less<>> known = {
      {"dqsg",
       {"dqsg:levels=3", "dqsg:levels=255", "dqsg:levels=257", "dqsg:levels=65535", "dqsg:levels=5,bucket=1",
        "dqsg:levels=5,bucket=100", "dqsg:levels=9,clip=2.5", "dqsg:levels=3,bucket=4194304"}},
      {"dither",
       {"dither:nmse=0.1", "dither:nmse=1e-8", "dither:nmse=1e4", "dither:nmse=0.001,bucket=100",
        "dither:nmse=0.3,bucket=1", "dither:step=0.01", "dither:step=1e-37", "dither:step=1e37"}}};
  const auto found = known.find(scheme.name());
  INFO("add edge texts for " << scheme.name());
  REQUIRE(found != known.end());
  return found->second;
}

std::vector<float> varied(size_t n) {
  std::vector<float> x(n);
  const kernels::Draws draws{{1, 2}, 0, 0};
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words(draws, 0, n, words.data());
  for (size_t i = 0; i < n; ++i) {
    const float magnitude = std::ldexp(1.0F, -static_cast<int>(words[i] >> 28));
    const float part = static_cast<float>(static_cast<int32_t>(words[i] << 8) >> 8) * 0x1p-23F;
    x[i] = i % 7 == 0 ? 0.0F : magnitude * part;
  }
  return x;
}

std::vector<std::vector<float>> edge_tensors() {
  std::vector<float> outlier(5000, 0.0F);
  outlier[4321] = 1e6F;
  return {{},
          {0.0F},
          {-0.0F},
          {1.0F},
          {-3e38F, 1e-45F, 1.0F},
          {0x1p126F, -0x1p126F, 0x1p-149F},
          {0x1.000002p126F, 1.0F},
          std::vector<float>(4097, 0.0F),
          std::vector<float>(300, -0.25F),
          std::vector<float>(300, 1e-31F),
          std::vector<float>(300, 1e-45F),
          outlier,
          varied(4096),
          varied(10001)};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float p, float q) {
           return std::bit_cast<uint32_t>(p) == std::bit_cast<uint32_t>(q);
         });
}

}  // namespace

TEST_CASE("the decoder gives what the encoder promised, for every scheme at its edges") {
  for (const Scheme* scheme : all_schemes()) {
    if (scheme->carries_bytes()) continue;
    for (const std::string& text : edge_texts(*scheme)) {
      for (const std::vector<float>& values : edge_tensors()) {
        INFO(text << " on " << values.size() << " values");
        const VectorTensor tensor(values);
        const RoundTrip first = round_trip(tensor, text, {7, 1, 2});
        CHECK(same_bits(first.decoded, first.promised));
        for (const float value : first.decoded) CHECK(std::isfinite(value));
        const RoundTrip again = round_trip(tensor, text, {7, 1, 2});
        CHECK(same_bits(first.decoded, again.decoded));
      }
    }
  }
}

TEST_CASE("kernel targets change nothing, for every scheme") {
  for (const Scheme* scheme : all_schemes()) {
    if (scheme->carries_bytes()) continue;
    for (const std::string& text : edge_texts(*scheme)) {
      const VectorTensor tensor(varied(10001));
      REQUIRE(kernels::use_target("scalar"));
      const RoundTrip scalar = round_trip(tensor, text, {3, {}, {}});
      for (const std::string& target : kernels::available_targets()) {
        INFO(text << " under " << target);
        REQUIRE(kernels::use_target(target));
        const RoundTrip other = round_trip(tensor, text, {3, {}, {}});
        CHECK(other.stored == scalar.stored);
        CHECK(same_bits(other.decoded, scalar.decoded));
        for (size_t i = 0; i < scalar.chunks.size(); ++i) {
          CHECK(other.chunks[i].params == scalar.chunks[i].params);
          CHECK(other.chunks[i].streams[0].symbols == scalar.chunks[i].streams[0].symbols);
        }
      }
      kernels::use_target("");
    }
  }
}

TEST_CASE("NaN and infinities are refused with their index, or kept bit for bit") {
  const float nan = std::bit_cast<float>(0x7FC12345U);
  std::vector<float> values = varied(5000);
  values[17] = nan;
  values[4999] = -std::numeric_limits<float>::infinity();
  values[4100] = 1e38F;  // finite, but beyond what is quantized
  const VectorTensor tensor(values);
  for (const Scheme* scheme : all_schemes()) {
    if (scheme->carries_bytes()) continue;
    for (const std::string& text : edge_texts(*scheme)) {
      INFO(text);
      CHECK_THROWS_WITH(round_trip(tensor, text, {1, {}, {}}), Catch::Contains("element 17"));
      const RoundTrip kept = round_trip(tensor, text, {1, {}, {}}, 4096, Nonfinite::keep);
      CHECK(same_bits(kept.decoded, kept.promised));
      CHECK(std::bit_cast<uint32_t>(kept.decoded[17]) == 0x7FC12345U);
      CHECK(kept.decoded[4999] == -std::numeric_limits<float>::infinity());
      CHECK(kept.decoded[4100] == 1e38F);
    }
  }
}

TEST_CASE("stored parameters that no encoder writes are refused, for every scheme") {
  const VectorTensor tensor(varied(5000));
  for (const Scheme* scheme : all_schemes()) {
    if (scheme->carries_bytes()) continue;
    for (const std::string& text : edge_texts(*scheme)) {
      INFO(text);
      const RoundTrip right = round_trip(tensor, text, {1, {}, {}});
      const SchemeChoice choice = parse_stored_scheme(parse_scheme(text).stored_text());
      const Random random({1, {}, {}}, 0);
      const Inputs inputs{random, kFirstStage, 4096};
      for (size_t size = 0; size < right.stored.size(); ++size) {
        ByteReader cut(ByteView(right.stored).first(size), "stored");
        CHECK_THROWS_AS(scheme->restore(choice.params, cut, inputs), Error);
      }
    }
  }
}
