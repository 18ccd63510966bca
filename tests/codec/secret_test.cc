// SPDX-License-Identifier: Apache-2.0
#include "codec/secret.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

using namespace gradcodec;

TEST_CASE("secret words never come again: not in a stream, nor from stream to stream") {
  std::set<uint64_t> seen;
  size_t drawn = 0;
  for (int streams = 0; streams < 50; ++streams) {
    SecretWords words;
    for (const size_t size : {size_t{1}, size_t{3}, size_t{64}, size_t{1000}, size_t{1000}}) {
      std::vector<uint32_t> out(size);
      words.fill(out);
      for (size_t i = 0; i + 1 < size; i += 2, ++drawn) seen.insert(uint64_t{out[i]} << 32 | out[i + 1]);
    }
  }
  CHECK(seen.size() == drawn);  // two of 50,000 words of 64 bits are the same with probability 10^-10
}

TEST_CASE("secret words have their bits at random") {
  SecretWords words;
  std::vector<uint32_t> out(1 << 18);
  words.fill(out);
  std::vector<double> ones(32, 0.0);
  double changed = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    for (unsigned bit = 0; bit < 32; ++bit) ones[bit] += out[i] >> bit & 1;
    if (i > 0) changed += std::popcount(out[i] ^ out[i - 1]);
  }
  const auto n = static_cast<double>(out.size());
  for (const double count : ones) CHECK(std::fabs(count - n / 2) < 7 * std::sqrt(n) / 2);
  CHECK(std::fabs(changed - 16 * n) < 7 * std::sqrt(8 * n) + 16);
}

TEST_CASE("nothing, and wiping, of secret words") {
  SecretWords words;
  words.fill({});
  std::vector<uint32_t> out(5);
  words.fill(out);
  wipe(out);
  CHECK(std::count(out.begin(), out.end(), 0U) == 5);
}
