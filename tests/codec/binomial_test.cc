// SPDX-License-Identifier: Apache-2.0
#include "codec/binomial.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/error.h"
#include "codec/kernels/kernels.h"

using namespace gradcodec;

namespace {

__extension__ using Wide = unsigned __int128;

uint32_t never() { throw Error(Exit::bug, "the first 64 digits decide here"); }

// F(0) to F(m - 1) times 2^m, for m below 128; C(m, k) by Pascal's triangle, whose numbers are that small.
std::vector<Wide> numerators(unsigned m) {
  std::vector<Wide> row = {1};
  for (unsigned n = 1; n <= m; ++n) {
    row.push_back(1);
    for (unsigned k = n - 1; k > 0; --k) row[k] += row[k - 1];
  }
  std::vector<Wide> out;
  Wide sum = 0;
  for (unsigned k = 0; k < m; ++k) out.push_back(sum += row[k]);
  return out;
}

// Z of the U whose m digits are `u`, the last ones 0.
uint32_t sample(const BinomialTable& table, Wide u, unsigned m) {
  const Wide all = u << (128 - m);
  int call = 0;
  return table.sample(static_cast<uint64_t>(all >> 64), [&] {
    ++call;
    return static_cast<uint32_t>(all >> (call == 1 ? 32 : 0));
  });
}

}  // namespace

TEST_CASE("the table has the first 64 digits of the distribution function") {
  for (const unsigned m : {1U, 2U, 3U, 31U, 32U, 33U, 63U, 64U, 65U, 66U, 96U, 97U, 100U, 127U}) {
    const BinomialTable table(m);
    const std::vector<Wide> f = numerators(m);
    for (unsigned k = 0; k < m; ++k) {
      INFO("F(" << k << ") of " << m);
      CHECK(table.first_digits(k) == static_cast<uint64_t>(m < 64 ? f[k] << (64 - m) : f[k] >> (m - 64)));
    }
  }
}

TEST_CASE("where 64 digits do not decide, all do: each number has exactly its probability") {
  for (const unsigned m : {1U, 2U, 5U, 64U, 65U, 96U, 97U, 127U}) {
    const BinomialTable table(m);
    const std::vector<Wide> f = numerators(m);
    for (unsigned k = 0; k < m; ++k) {
      INFO("at F(" << k << ") of " << m);
      CHECK(sample(table, f[k] - 1, m) == k);
      CHECK(sample(table, f[k], m) == k + 1);
    }
    CHECK(sample(table, 0, m) == 0);
    CHECK(sample(table, (Wide{1} << m) - 1, m) == m);
  }
}

TEST_CASE("every U of few digits: the coefficients themselves") {
  for (const unsigned m : {1U, 2U, 3U, 10U, 16U}) {
    const BinomialTable table(m);
    std::vector<uint32_t> count(m + 1);
    for (uint64_t u = 0; u < uint64_t{1} << m; ++u) {
      // Behind the digits that matter, 0 and 1.
      const uint64_t word = u << (64 - m);
      ++count[table.sample(word, [] { return 0U; })];
      CHECK(table.sample(word | ((uint64_t{1} << (64 - m)) - 1), never) == table.sample(word, [] { return 0U; }));
    }
    uint64_t coefficient = 1;
    for (unsigned k = 0; k <= m; ++k) {
      CHECK(count[k] == coefficient);
      coefficient = coefficient * (m - k) / (k + 1);
    }
  }
}

TEST_CASE("mean and variance of tables of all sizes") {
  for (const uint32_t m : {1U, 7U, 64U, 100U, 1000U, 2001U, 20000U, kMaxBinomial}) {
    INFO(m);
    const BinomialTable table(m);
    double mean = 0, square = 0;  // E Z = sum of P(Z > k), E Z^2 = sum of (2 k + 1) P(Z > k)
    for (uint32_t k = 0; k < m; ++k) {
      const double above = static_cast<double>(~table.first_digits(k)) * 0x1p-64;
      mean += above;
      square += (2.0 * k + 1) * above;
    }
    CHECK(mean == Approx(m / 2.0).epsilon(1e-12));
    CHECK(square - mean * mean == Approx(m / 4.0).epsilon(1e-8));
    // Symmetric to the last digit.
    for (uint32_t k = 0; k < m; ++k) {
      const uint64_t sum = table.first_digits(k) + table.first_digits(m - 1 - k);
      if (sum != 0 && sum != ~uint64_t{0}) FAIL("F(" << k << ")");
    }
  }
}

TEST_CASE("numbers from a table are distributed as sums of bits") {
  for (const uint32_t m : {5U, 32U, 1000U}) {
    INFO(m);
    const BinomialTable table(m);
    constexpr size_t kDraws = 200000;
    std::vector<uint32_t> words(2 * kDraws);
    kernels::philox_words({{m, 5}, 0, 0}, 0, words.size(), words.data());
    std::vector<double> count(m + 1);
    for (size_t i = 0; i < kDraws; ++i) {
      ++count[table.sample(uint64_t{words[2 * i]} << 32 | words[2 * i + 1], never)];
    }
    // Chi-squared over the numbers that are expected often enough; 7 deviations.
    double chi2 = 0, bins = 0;
    for (uint32_t k = 0; k <= m; ++k) {
      const double log_p = std::lgamma(m + 1.0) - std::lgamma(k + 1.0) - std::lgamma(m - k + 1.0) - m * std::log(2.0);
      const double expected = kDraws * std::exp(log_p);
      if (expected < 20) continue;
      chi2 += (count[k] - expected) * (count[k] - expected) / expected;
      ++bins;
    }
    CHECK(std::fabs(chi2 - bins) < 7 * std::sqrt(2 * bins) + 5);
  }
}

TEST_CASE("tables are shared, and only those that can be made are") {
  const auto first = BinomialTable::of(12);
  CHECK(BinomialTable::of(12) == first);
  CHECK(BinomialTable::of(13) != first);
  CHECK(first->trials() == 12);
  CHECK_THROWS_AS(BinomialTable(0), Error);
  CHECK_THROWS_AS(BinomialTable(kMaxBinomial + 1), Error);
}
