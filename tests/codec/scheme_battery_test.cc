// What must hold for every scheme, at its edges. A new scheme fails here until its edge texts are added.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

// Codes of the same parameters and symbols, those below too.
void check_same(const Code& a, const Code& b) {
  CHECK(a.params == b.params);
  REQUIRE(a.streams.size() == b.streams.size());
  for (size_t i = 0; i < a.streams.size(); ++i) {
    CHECK(a.streams[i].symbols == b.streams[i].symbols);
    CHECK(a.streams[i].bytes == b.streams[i].bytes);
  }
  REQUIRE((a.inner == nullptr) == (b.inner == nullptr));
  if (a.inner) check_same(*a.inner, *b.inner);
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
          check_same(other.chunks[i], scalar.chunks[i]);
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
      if (scheme->is_private()) {
        CHECK_THROWS_WITH(round_trip(tensor, text, {1, {}, {}}, 4096, Nonfinite::keep), Catch::Contains("element 17"));
        continue;
      }
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
      Inputs inputs{random, kFirstStage, 4096};
      inputs.size = tensor.size();
      for (size_t size = 0; size < right.stored.size(); ++size) {
        ByteReader cut(ByteView(right.stored).first(size), "stored");
        CHECK_THROWS_AS(choice.restore(cut, inputs), Error);
      }
    }
  }
}
