// The tests of `verify` on errors that are drawn together, that are sums, and that are vectors; and where there is no
// law.
// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <map>

#include "codec/checks/drawn_errors.h"
#include "codec/checks/error_check.h"
#include "codec/checks/law_numbers.h"
#include "codec/checks/simulated_trials.h"

using namespace gradcodec;

namespace {

constexpr double kLevel = 1e-6 / kTestsPerTensor;

CheckOptions at_level(double level) {
  CheckOptions options;
  options.level = level;
  return options;
}

std::vector<float> spread_values(size_t n, uint32_t seed) {
  std::vector<uint32_t> words(n);
  kernels::philox_words({{seed, 1}, 0, 0}, 0, n, words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(static_cast<int32_t>(words[i])) * 0x1p-30F;  // in (-2, 2)
  return x;
}

const std::map<std::string, Law::Kind> kKinds = {{"subset", Law::subset}, {"sum", Law::sum}, {"cell", Law::cell}};

std::vector<Law> laws_of(const std::vector<float>& x, Law::Kind kind) {
  const auto n = static_cast<double>(x.size()), kept = std::ceil(n / 3);
  std::vector<Law> laws;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<double>(x[i]), below = std::floor(value);
    laws.push_back(kind == Law::subset ? Law::sampled(value, kept, n)
                   : kind == Law::sum  ? Law::with_noise(value, below, below + 1, 8)
                                       : Law::in_cell(1.5, 2.25 * DrawnErrors::kHexagon, 2, i / 2));
  }
  return laws;
}

std::string broken(const TensorFindings& tensor) {
  std::string out;
  for (const Finding& finding : tensor.findings) {
    if (finding.verdict == Verdict::broken) out += (out.empty() ? "" : ", ") + finding.name;
  }
  return out;
}

// As findings_of, with a promise.
TensorFindings findings_with(const Trials& trials, const Promise& promise, double level = kLevel) {
  ErrorCheck check(trials, nullptr, at_level(level));
  check.set_promise(promise);
  ErrorCheck::Room room;
  for (uint64_t chunk = 0; chunk < trials.chunks(); ++chunk) check.take(check.survey(chunk, room));
  for (uint64_t chunk = 0; chunk < trials.chunks(); ++chunk) check.take(check.measure(chunk, room, [] {}));
  return check.findings();
}

TensorFindings tested(const Trials& trials, Law::Kind kind, double level = kLevel) {
  Promise promise;
  promise.unbiased = true;
  promise.independent = kind != Law::subset;
  return findings_with(trials, promise, level);
}

// What is broken of errors that are bent.
std::string after(Law::Kind kind, const std::vector<float>& x, const DrawnTrials::Bend& bend, uint64_t trials = 64) {
  return broken(tested(DrawnTrials(x, laws_of(x, kind), trials, 3, bend), kind));
}

bool names(const std::string& list, const std::string& name) {
  return (", " + list + ",").find(", " + name + ",") != std::string::npos;
}

std::vector<Law> no_laws(size_t n) { return std::vector<Law>(n); }

}  // namespace

TEST_CASE("numbers of laws: by hand") {
  // 3 of 12: kept as 4 x, else 0. x = -0.5: errors 0.5 or -1.5.
  const Law drawn = Law::sampled(-0.5, 3, 12);
  CHECK(drawn.lo == 0.5);
  CHECK(drawn.hi == -1.5);
  const LawNumbers subset = numbers_of(drawn);
  CHECK(subset.mean == 0);
  CHECK(subset.variance == 0.75);  // (d/k - 1) x^2
  CHECK(subset.tail == 1);         // s^2 f
  CHECK(subset.step == 2);
  CHECK(square_of(drawn, subset).tail == 0.25 * 4);  // f (2.25 - 0.25)^2
  CHECK(Law::sampled(0.5, 12, 12).kind == Law::point);

  // Rounding 0.25 to 0 or 1, and a fair coin's +- 1/2: values -0.75, 0.25, 0.25, 1.25.
  const Law noisy = Law::with_noise(0.25, 0, 1, 1);
  const LawNumbers sum = numbers_of(noisy);
  CHECK(sum.mean == 0);
  CHECK(sum.variance == 0.1875 + 0.25);
  CHECK(sum.reach == 1.25);
  const std::array<std::pair<double, double>, 3> values = {{{-0.75, 0.375}, {0.25, 0.5}, {1.25, 0.125}}};
  double fourth = 0;
  for (const auto& [e, p] : values) fourth += p * e * e * e * e;
  CHECK(square_of(noisy, sum).tail == Approx(fourth - sum.variance * sum.variance));

  const LawNumbers cell = numbers_of(Law::in_cell(2, 0.5, 4, 17));
  CHECK(cell.mean == 0);
  CHECK(cell.variance == 0.5);
  CHECK(cell.step == 4);
  CHECK(cell.reach == 2);
}

TEST_CASE("a point far below its target may be off by float64's rounding") {
  const std::vector<float> x = {1.0F, 1e20F, -3.0F};
  std::vector<Law> laws = {Law::at(-0x1p-24), Law::at(-1e20), Law::at(3.0)};
  laws[0].lo = laws[0].hi = -0x1p-24 * (1 + 0x1p-30);
  CHECK(broken(findings_of(DrawnTrials(x, laws, 4, 1), at_level(kLevel))).empty());
  laws[0] = Law::at(-0x1p-23);
  const auto one_up = [](std::vector<double>& errors) { errors[0] = -0x1p-24; };
  CHECK(broken(findings_of(DrawnTrials(x, laws, 4, 1, one_up), at_level(kLevel))) == "support");
}

TEST_CASE("e-values of honest errors that are drawn together have a mean of at most 1", "[statistical]") {
  // All alike, the errors of a subset sum up to the same every time; one alone carries all; and in between.
  const std::vector<std::vector<float>> cases = {{0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F},
                                                 {0.01F, 0.02F, 1.9F, -0.01F, 0.03F, 0.01F},
                                                 {0.5F, -0.3F, 1.4F, 0.8F, -1.7F, 0.1F}};
  const uint64_t runs = 10000;
  for (const auto& [name, kind] : kKinds) {
    for (const std::vector<float>& x : cases) {
      const std::vector<Law> laws = laws_of(x, kind);
      double sum = 0, squares = 0;
      for (uint64_t run = 0; run < runs; ++run) {
        const DrawnTrials trials(x, laws, 6, run, {}, 3);  // in two chunks
        ErrorCheck check(trials, nullptr, at_level(8 * std::exp(-2.0)));
        ErrorCheck::Room room;
        for (uint64_t chunk = 0; chunk < 2; ++chunk) check.take(check.survey(chunk, room));
        double log_w = 0;
        for (uint64_t chunk = 0; chunk < 2; ++chunk) log_w += check.measure(chunk, room, [] {}).log_w[2 + run % 2];
        sum += std::exp(log_w);
        squares += std::exp(2 * log_w);
      }
      const double mean = sum / runs, error = std::sqrt((squares / runs - mean * mean) / runs);
      INFO(name << ": " << mean << " +- " << error);
      CHECK(mean <= 1 + 4 * error);
    }
  }
}

TEST_CASE("honest errors that are drawn together, sums, and vectors: few false alarms at a rate of 5 %",
          "[statistical]") {
  uint64_t alarms = 0;
  const uint64_t runs = 2000;
  for (uint64_t run = 0; run < runs; ++run) {
    const size_t n = run % 4 == 0 ? 9 : run % 4 == 1 ? 60 : 600;
    const std::vector<float> x =
        run % 5 == 0 ? std::vector<float>(n, 0.7F) : spread_values(n, static_cast<uint32_t>(run));
    for (const auto& [name, kind] : kKinds) {
      if (run % kKinds.size() != static_cast<size_t>(std::distance(kKinds.begin(), kKinds.find(name)))) continue;
      const TensorFindings findings = tested(DrawnTrials(x, laws_of(x, kind), 16, run), kind, 0.05 / kTestsPerTensor);
      if (findings.reason() == nullptr) continue;
      ++alarms;
      std::cout << name << " of " << n << ": " << broken(findings) << "\n";
    }
  }
  std::cout << alarms << " false alarms in " << runs << " honest runs at 5 %\n";
  CHECK(alarms <= 131);  // the 99.9 % point of Bin(2000, 0.05)
}

TEST_CASE("plain scores of sums and vectors are those of a normal law, of a subset no larger", "[statistical]") {
  const std::vector<float> x = spread_values(3000, 1);
  const uint64_t runs = 250;
  for (const auto& [name, kind] : kKinds) {
    std::map<std::string, double> squares;
    for (uint64_t run = 0; run < runs; ++run) {
      const TensorFindings findings = tested(DrawnTrials(x, laws_of(x, kind), 4, run), kind);
      for (const std::string test : {"bias overall", "linear x", "linear sign", "variance"}) {
        squares[test] += finding(findings, test).z * finding(findings, test).z / runs;
      }
    }
    for (const auto& [test, mean] : squares) {
      INFO(name << ", " << test << ": mean of z^2 " << mean);
      CHECK(mean < 1.45);  // five deviations above 1
      // Bounded above alone: errors of a subset cancel, and the square of a vector varies less than its bound.
      const bool bounded = kind == Law::subset || (kind == Law::cell && test == "variance");
      CHECK(mean > (bounded ? 0.01 : 0.55));
    }
  }
}

TEST_CASE("faults of errors that are drawn together, of sums, and of vectors are found by the tests that should",
          "[statistical]") {
  const std::vector<float> x = spread_values(20000, 2);
  for (const auto& [name, kind] : kKinds) {
    const TensorFindings honest = tested(DrawnTrials(x, laws_of(x, kind), 64, 3), kind);
    INFO(name << ": " << broken(honest));
    CHECK(honest.reason() == nullptr);
    CHECK(finding(honest, "support").verdict == Verdict::proved);
    CHECK(finding(honest, "variance").verdict == Verdict::kept);
    if (kind != Law::subset) CHECK(finding(honest, "linear x").verdict == Verdict::kept);  // its variance is large
    CHECK(finding(honest, "coordinate").verdict == Verdict::kept);
    CHECK(finding(honest, "uniformity").verdict == Verdict::not_covered);
    const double slope = finding(honest, "linear x").smallest,
                 wider = std::sqrt(1 + finding(honest, "variance").smallest);
    const auto sloping = [&](std::vector<double>& errors) {
      for (size_t i = 0; i < errors.size(); ++i) errors[i] += 1.2 * slope * static_cast<double>(x[i]);
    };
    const auto widened = [&](std::vector<double>& errors) {
      for (double& e : errors) e *= 1 + 1.2 * (wider - 1);
    };
    CHECK(names(after(kind, x, sloping), "linear x"));
    CHECK(names(after(kind, x, widened), "variance"));
    // One element that is always as far up as it may be (of a cell: along one side).
    const Law law = laws_of(x, kind)[777];
    const double far = kind == Law::subset ? law.hi : kind == Law::sum ? law.hi + 4 : 0.8 * law.hi;
    const auto stuck = [&](std::vector<double>& errors) {
      errors[777] = far;
      errors[776] = 0;  // the other of its vector
    };
    CHECK(names(after(kind, x, stuck), "coordinate"));
  }
}

TEST_CASE("what only laws of these kinds can break") {
  const std::vector<float> x = spread_values(20000, 2);
  // One more element than was to be drawn.
  const std::vector<Law> subset = laws_of(x, Law::subset);
  const auto one_more = [&](std::vector<double>& errors) {
    size_t i = 0;
    while (errors[i] == subset[i].hi) ++i;
    errors[i] = subset[i].hi;
  };
  CHECK(after(Law::subset, x, one_more, 2) == "subset");

  // Noise about half a step too high: a sum that no number of coins gives.
  const auto half_up = [](std::vector<double>& errors) {
    for (double& e : errors) e += 0.5;
  };
  CHECK(names(after(Law::sum, x, half_up, 2), "support"));

  // The second coordinate follows the first: no law of a cell, whose radius it passes; each coordinate is in its reach.
  const auto diagonal = [](std::vector<double>& errors) {
    for (size_t i = 0; i + 1 < errors.size(); i += 2) errors[i + 1] = errors[i];
  };
  const std::string together = after(Law::cell, x, diagonal, 8);
  CHECK(names(together, "support"));
  const TensorFindings findings = tested(DrawnTrials(x, laws_of(x, Law::cell), 8, 3, diagonal), Law::cell);
  CHECK(finding(findings, "support").note.find("radii") != std::string::npos);

  // Vectors that repeat are seen at a vector's distance, not at one within it.
  const auto repeated = [](std::vector<double>& errors) {
    for (size_t i = 0; i + 3 < errors.size(); i += 4) {
      errors[i + 2] = errors[i];
      errors[i + 3] = errors[i + 1];
    }
  };
  CHECK(names(after(Law::cell, x, repeated), "lag 2"));
}

TEST_CASE("vectors whose coordinates lie apart are tested as vectors") {
  // Every fourth element is of a vector, as after a sparsifier; the others are decoded to 0.
  const std::vector<float> x = spread_values(4000, 5);
  std::vector<Law> laws(x.size());
  uint64_t kept = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    laws[i] =
        i % 4 == 1 ? Law::in_cell(0.5, 0.25 * DrawnErrors::kHexagon, 2, kept / 2) : Law::at(-static_cast<double>(x[i]));
    kept += i % 4 == 1;
  }
  Promise promise;
  promise.independent = true;
  const TensorFindings findings = findings_with(DrawnTrials(x, laws, 64, 3), promise);
  CHECK(broken(findings).empty());
  // A vector is five long, from its first element to its last.
  CHECK_THROWS(finding(findings, "lag 4"));
  CHECK(finding(findings, "lag 20").verdict == Verdict::kept);
  const auto longer = [](std::vector<double>& errors) { errors[9] = errors[13] = 0.4; };
  CHECK(broken(findings_with(DrawnTrials(x, laws, 2, 3, longer), promise)) == "support");
}

TEST_CASE("the limits of Student's law") {
  CHECK(student_limit(1) == Approx(12.7062).epsilon(1e-4));
  CHECK(student_limit(2) == Approx(4.30265).epsilon(1e-4));
  CHECK(student_limit(63) == Approx(1.99834).epsilon(1e-4));
  CHECK(student_limit(1000) == Approx(1.96234).epsilon(1e-5));
  CHECK(student_limit(1001) == Approx(1.96234).epsilon(1e-5));
}

TEST_CASE("without a law: numbers that decide nothing, and what each message is promised") {
  const std::vector<float> x = spread_values(2000, 6);
  const std::vector<Law> dithered(x.size(), Law::dithered(0.5));
  // Real errors, of which nothing is declared.
  class Unknown final : public Trials {
   public:
    explicit Unknown(const Trials& known) : known_(known) {}
    uint64_t size() const override { return known_.size(); }
    uint64_t chunk_len() const override { return known_.chunk_len(); }
    uint64_t count() const override { return known_.count(); }
    void load(uint64_t trial, Range range, bool whole, Sample& sample) const override {
      known_.load(trial, range, whole, sample);
      sample.laws = no_laws(sample.target.size());
    }

   private:
    const Trials& known_;
  };
  const auto shrunk = [&](std::vector<double>& errors) {
    for (size_t i = 0; i < errors.size(); ++i) errors[i] -= 0.25 * static_cast<double>(x[i]);
  };
  uint64_t within = 0, bias_within = 0;
  const uint64_t runs = 200;
  for (uint64_t run = 0; run < runs; ++run) {
    const TensorFindings findings = findings_of(Unknown(DrawnTrials(x, dithered, 16, run, shrunk)), at_level(kLevel));
    CHECK(findings.reason() == nullptr);
    const Finding& slope = finding(findings, "linear x");
    CHECK(slope.verdict == Verdict::approximate);
    within += slope.low <= -0.25 && slope.high >= -0.25;
    CHECK(slope.measured == Approx(-0.25).margin(0.02));
    const Finding& bias = finding(findings, "bias overall");
    double norm2 = 0;
    for (const float value : x) norm2 += static_cast<double>(value) * static_cast<double>(value);
    const double bias2 = norm2 / 16, whole = bias2 + static_cast<double>(x.size()) / 48;
    bias_within += bias.low <= bias2 / whole && bias.high >= bias2 / whole;
    CHECK(finding(findings, "error").measured == Approx(whole / norm2).epsilon(0.02));
  }
  CHECK(within >= 175);  // 190 expected; five deviations
  CHECK(bias_within >= 175);
  // Without a bias, its interval holds 0 as often as it says.
  uint64_t zero_within = 0;
  for (uint64_t run = 0; run < runs; ++run) {
    const TensorFindings findings = findings_of(Unknown(DrawnTrials(x, dithered, 16, run)), at_level(kLevel));
    zero_within += finding(findings, "bias overall").low <= 0 && finding(findings, "bias overall").high >= 0;
  }
  CHECK(zero_within >= 175);

  // A contraction of each message, and the identity <x', x> = ||x||^2.
  const DrawnTrials known(x, dithered, 4, 1, shrunk), straight(x, no_laws(x.size()), 4, 1);
  const Unknown biased(known), exact(straight);
  Promise promise;
  promise.projection = true;
  promise.delta = 0.87;  // the error is 1/16 and 1/48 over 4/3, the mean square, of it: 0.078
  CHECK(broken(findings_with(biased, promise)).empty());
  promise.delta = 0.93;
  CHECK(broken(findings_with(biased, promise)) == "contraction");
  promise.delta.reset();
  promise.inner_product = 1e-6;
  CHECK(broken(findings_with(biased, promise)) == "inner product");
  CHECK(broken(findings_with(exact, promise)).empty());
}

TEST_CASE("an error without chance is declared whole") {
  // The largest half is kept.
  std::vector<float> x = spread_values(1000, 8);
  std::vector<Law> laws(x.size());
  double dropped = 0, norm2 = 0, largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<double>(x[i]);
    const bool kept = std::fabs(value) > 1;
    laws[i] = Law::at(kept ? 0 : -value);
    norm2 += value * value;
    if (kept) continue;
    dropped += value * value;
    largest = std::max(largest, std::fabs(value));
  }
  const DrawnTrials trials(x, laws, 2, 1);
  Promise promise;
  promise.variance = dropped;
  promise.delta = 1 - dropped / norm2;
  promise.projection = true;
  promise.max_error = largest;
  CHECK(broken(findings_with(trials, promise)).empty());
  promise.variance = 0.999 * dropped;
  CHECK(broken(findings_with(trials, promise)) == "variance bound");
  promise.variance = dropped;
  promise.delta = 1 - 0.999 * dropped / norm2;
  CHECK(broken(findings_with(trials, promise)) == "contraction");
  promise.delta.reset();
  promise.max_error = 0.99 * largest;
  CHECK(broken(findings_with(trials, promise)) == "variance bound");
  promise.max_error.reset();
  promise.unbiased = true;
  CHECK(broken(findings_with(trials, promise)) == "variance bound");
}
