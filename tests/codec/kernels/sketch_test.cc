// The loops of count sketches: what a word says, every instruction set against the definition.
// SPDX-License-Identifier: Apache-2.0
#include "codec/kernels/sketch.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <vector>

using namespace gradcodec;
using kernels::Draws;

namespace {

constexpr Draws kDraws = {{0x243F6A88, 0x85A308D3}, 7, 0x00060002};

struct WithTarget {
  explicit WithTarget(const std::string& name) { REQUIRE(kernels::use_target(name)); }
  ~WithTarget() { kernels::use_target(""); }
};

// Few different ones, so that rows agree often; zeros of both signs among them.
std::vector<float> floats(size_t n, uint32_t what) {
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words({{what, 4}, 0, 0}, 0, n, words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const float magnitude = static_cast<float>(words[i] >> 8 & 3) / 4;
    x[i] = words[i] >> 31 != 0 ? -magnitude : magnitude;
  }
  return x;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float p, float q) { return std::bit_cast<uint32_t>(p) == std::bit_cast<uint32_t>(q); });
}

}  // namespace

TEST_CASE("a word's top bit is the sign, the others are the bucket") {
  CHECK_FALSE(kernels::sketch_minus(0x7FFFFFFF));
  CHECK(kernels::sketch_minus(0x80000000));
  for (const uint32_t cols : {1U, 2U, 3U, 1000U, 0x7FFFFFFFU}) {
    CHECK(kernels::sketch_bucket(0, cols) == 0);
    CHECK(kernels::sketch_bucket(0x80000000, cols) == 0);
    CHECK(kernels::sketch_bucket(0x7FFFFFFF, cols) == cols - 1);
    CHECK(kernels::sketch_bucket(0xFFFFFFFF, cols) == cols - 1);
  }
  // Of 2^31 words with either sign each of three buckets has a third, and the first that is beyond a third is the next.
  CHECK(kernels::sketch_bucket(0x2AAAAAAA, 3) == 0);
  CHECK(kernels::sketch_bucket(0x2AAAAAAB, 3) == 1);
  CHECK(kernels::sketch_bucket(0x55555555, 3) == 1);
  CHECK(kernels::sketch_bucket(0x55555556, 3) == 2);
}

TEST_CASE("the loops of sketches are the same under every instruction set") {
  for (const std::string& target : kernels::available_targets()) {
    const WithTarget with(target);
    INFO(target);
    for (const uint64_t first : {uint64_t{0}, uint64_t{3}, (uint64_t{1} << 34) - 5}) {
      for (const size_t n : {0, 1, 7, 64, 1000, 1029}) {
        for (const uint32_t cols : {1U, 17U, 500'000U}) {
          const std::vector<float> x = floats(n, 1), row = floats(cols, 2);
          std::vector<uint32_t> buckets(n), wanted_buckets(n);
          std::vector<float> terms(n), wanted_terms(n), said(n), wanted_said(n);
          kernels::sketch_terms(kDraws, first, x.data(), n, cols, buckets.data(), terms.data());
          kernels::scalar::sketch_terms(kDraws, first, x.data(), n, cols, wanted_buckets.data(), wanted_terms.data());
          CHECK(buckets == wanted_buckets);
          CHECK(same_bits(terms, wanted_terms));
          kernels::sketch_row(kDraws, first, n, cols, row.data(), said.data());
          kernels::scalar::sketch_row(kDraws, first, n, cols, row.data(), wanted_said.data());
          CHECK(same_bits(said, wanted_said));
        }
      }
    }
    for (const unsigned count : {1U, 3U, 5U, 7U, 9U, 31U, 63U}) {
      const size_t stride = 205, n = 203;
      const std::vector<float> rows = floats(count * stride, 5 + count);
      std::vector<float> medians(n), wanted(n);
      kernels::sketch_medians(rows.data(), stride, count, n, medians.data());
      kernels::scalar::sketch_medians(rows.data(), stride, count, n, wanted.data());
      CHECK(same_bits(medians, wanted));
      std::vector<int64_t> whole(rows.size()), whole_medians(n), whole_wanted(n);
      std::transform(rows.begin(), rows.end(), whole.begin(),
                     [](float x) { return static_cast<int64_t>(x * 4) * 0x0123456789ABCDEF; });
      kernels::sketch_medians(whole.data(), stride, count, n, whole_medians.data());
      kernels::scalar::sketch_medians(whole.data(), stride, count, n, whole_wanted.data());
      CHECK(whole_medians == whole_wanted);
      kernels::sketch_medians(whole.data(), stride, count, n, whole.data());  // in place of the first row
      whole.resize(n);
      CHECK(whole == whole_wanted);
    }
  }
}
