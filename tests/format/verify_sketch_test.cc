// verify on sketches, which declare no law of an element: the honest one is never called broken, broken ones are, by
// the signs of errors or by their squares.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/kernels/sketch.h"
#include "format/verify_support.h"
#include "mutants/stated.h"

using namespace gradcodec;

namespace {

using Floats = std::vector<float>;

const uint64_t kSeeds = usual_seeds();

// How a sketch may go wrong: which word a coordinate has, and what follows from it when it is added, and when it is
// asked for.
struct Faults {
  std::function<uint64_t(uint64_t)> coordinate = [](uint64_t j) { return j; };
  std::function<uint32_t(uint32_t)> word = [](uint32_t w) { return w; };
  std::function<uint32_t(uint32_t, unsigned row)> added = [](uint32_t w, unsigned) { return w; };
};

constexpr uint32_t kCols = 64;

// Decodes as the scheme does, but for the faults, and promises what it does.
Statement sketch(unsigned rows, const Faults& faults) {
  Statement out;
  out.message = [=](std::span<const float> x, const Random& random) {
    Floats said(rows * x.size()), decoded(x.size());
    for (unsigned row = 0; row < rows; ++row) {
      std::vector<uint32_t> words(x.size());
      kernels::philox_words(random.draws(Purpose::hash, 0, static_cast<uint16_t>(row)), 0, words.size(), words.data());
      std::vector<double> cells(kCols, 0.0);
      const auto word_of = [&](size_t j) { return faults.word(words[faults.coordinate(j)]); };
      for (size_t j = 0; j < x.size(); ++j) {
        const uint32_t word = faults.added(word_of(j), row);
        const auto value = static_cast<double>(x[j]);
        cells[kernels::sketch_bucket(word, kCols)] += kernels::sketch_minus(word) ? -value : value;
      }
      for (size_t j = 0; j < x.size(); ++j) {
        const auto cell = static_cast<float>(cells[kernels::sketch_bucket(word_of(j), kCols)]);
        said[row * x.size() + j] = kernels::sketch_minus(word_of(j)) ? -cell : cell;
      }
    }
    kernels::sketch_medians(said.data(), x.size(), rows, x.size(), decoded.data());
    return StatedMessage{decoded, {}};
  };
  out.laws = [](std::span<const float>, std::span<Law> laws) { std::fill(laws.begin(), laws.end(), Law()); };
  out.promise = [=](std::span<const float> x) {
    Promise promise;
    promise.unbiased = promise.symmetric = true;
    promise.omega = 2.0 * rows / (rows + 1) * (static_cast<double>(x.size()) - 1) / kCols;
    return promise;
  };
  return out;
}

// A few stand out, as in gradients.
Floats values() {
  Floats x = gradient("fc1.weight", 3000);
  for (size_t i = 0; i < x.size(); i += 100) x[i] = (i % 200 == 0 ? 20.0F : -20.0F) * std::max(1e-4F, std::fabs(x[i]));
  return x;
}

TensorFindings run(const Statement& statement, uint64_t seed, uint64_t trials) {
  const Stated scheme(statement);
  VerifyOptions options = verify_options(scheme, {}, seed);
  options.trials = trials;
  return verify({{"w", values()}}, options).at(0);
}

void check_caught(const Statement& statement, const std::string& by, uint64_t trials = 128) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const TensorFindings findings = run(statement, seed, trials);
    INFO("seed " << seed << ": " << joined(broken(findings)));
    CHECK(finding(findings, by).verdict == Verdict::broken);
  }
}

}  // namespace

TEST_CASE("an honest sketch is never broken", "[slow]") {
  for (const unsigned rows : {1U, 5U}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const TensorFindings findings = run(sketch(rows, {}), seed, 128);
      INFO(rows << " rows, seed " << seed << ": " << joined(broken(findings)));
      CHECK(findings.reason() == nullptr);
      CHECK(finding(findings, "coordinate").verdict == Verdict::kept);
      CHECK(finding(findings, "squared error").verdict == Verdict::kept);
    }
  }
}

TEST_CASE("the scheme itself is kept, of steps where its hashes are of the run") {
  for (const std::string text :
       {"countsketch:rows=1,cols=64", "countsketch:rows=5,cols=64,scope=run", "countsketch:rows=3,cols=64,value=i64"}) {
    INFO(text);
    VerifyOptions options;
    options.compress.scheme = parse_scheme(text);
    options.compress.coders = coders_for_level(1);
    options.compress.id.seed = 5;
    options.trials = 128;
    const TensorFindings findings = verify({{"w", values()}}, options).at(0);
    CHECK(joined(broken(findings)).empty());
    CHECK(finding(findings, "coordinate").verdict == Verdict::kept);
    CHECK(finding(findings, "squared error").verdict == Verdict::kept);
    CHECK(finding(findings, "variance").verdict ==
          (text.find("rows=1") == std::string::npos ? Verdict::not_covered : Verdict::approximate));
  }
}

TEST_CASE("few messages cannot tell the sign of an error, and it is said how many can") {
  const Finding few = finding(run(sketch(5, {}), 1, 8), "coordinate");
  CHECK(few.verdict == Verdict::undecided);
  CHECK(few.trials_needed > 8);
  CHECK(few.trials_needed < 128);
}

TEST_CASE("a hash that ignores the lowest bit of the place is caught by the signs of errors", "[slow]") {
  Faults faults;
  faults.coordinate = [](uint64_t j) { return j & ~uint64_t{1}; };
  for (const unsigned rows : {1U, 5U}) check_caught(sketch(rows, faults), "coordinate");
}

TEST_CASE("a sign that is always + is caught by the signs of errors", "[slow]") {
  Faults faults;
  faults.word = [](uint32_t word) { return word & 0x7FFFFFFF; };
  check_caught(sketch(5, faults), "coordinate", 600);
}

TEST_CASE("a wrong sign in one row is caught by the signs of errors", "[slow]") {
  Faults faults;
  faults.added = [](uint32_t word, unsigned row) { return row == 0 ? word ^ 0x80000000 : word; };
  check_caught(sketch(1, faults), "coordinate");
  check_caught(sketch(3, faults), "coordinate", 600);
  check_caught(sketch(5, faults), "coordinate", 1000);
}

TEST_CASE("a hash that ignores the bucket's highest bit is caught by the squares of errors", "[slow]") {
  Faults faults;
  faults.word = [](uint32_t word) { return word & ~uint32_t{0x40000000}; };
  check_caught(sketch(1, faults), "squared error");
}
