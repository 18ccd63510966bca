// The tests of `verify`, tested: their thresholds hold, are not wasteful, and the effects that they claim to find are
// found.
// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/error_check.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <map>

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
  kernels::philox_words({{seed, 0}, 0, 0}, 0, n, words.data());
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(static_cast<int32_t>(words[i])) * 0x1p-30F;  // in (-2, 2)
  return x;
}

enum class Kind { uniform, two };

std::vector<Law> laws_of(const std::vector<float>& x, Kind kind) {
  std::vector<Law> laws(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    laws[i] = kind == Kind::uniform ? Law::dithered(1) : Law::rounded_to_step(static_cast<double>(x[i]), 1);
  }
  return laws;
}

// The normal quantile: P(Z > quantile(p)) = p.
double quantile(double p) {
  double low = 0, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > p ? low : high) = middle;
  }
  return low;
}

struct Moments {
  double sum = 0, squares = 0;
  uint64_t count = 0;
  void add(double value) {
    sum += value;
    squares += value * value;
    ++count;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double error() const {  // of the mean
    const auto n = static_cast<double>(count);
    return std::sqrt((squares / n - mean() * mean()) / n);
  }
};

// W of the bias overall over honest runs, at plus or minus its second lambda, half of sqrt(2 ln(8 / level) / V0): at
// this level 1 / sqrt(V0).
Moments overall_w(const std::vector<float>& x, Kind kind, uint64_t trials, uint64_t runs) {
  const CheckOptions options = at_level(8 * std::exp(-2.0));
  const std::vector<Law> laws = laws_of(x, kind);
  Moments w;
  for (uint64_t run = 0; run < runs; ++run) {
    const SimulatedTrials simulated(x, laws, trials, run);
    ErrorCheck check(simulated, nullptr, options);
    ErrorCheck::Room room;
    check.take(check.survey(0, room));
    w.add(std::exp(check.measure(0, room, [] {}).log_w[run % 2 == 0 ? 2 : 3]));
  }
  return w;
}

// W of the dependence at a lag of 1, lambda sqrt(P0) = 1, over honest runs of one trial.
Moments lag_w(const std::vector<float>& x, Kind kind, uint64_t runs, bool penalty = true) {
  const std::vector<Law> laws = laws_of(x, kind);
  const CheckOptions options = at_level(0.5);
  Moments w;
  for (uint64_t run = 0; run < runs; ++run) {
    const SimulatedTrials simulated(x, laws, 1, run);
    ErrorCheck check(simulated, nullptr, options);
    ErrorCheck::Room room;
    check.take(check.survey(0, room));
    const LagSums sums = check.measure(0, room, [] {}).pairs[0];
    const double lambda = 1 / std::sqrt(sums.expected_p);
    w.add(std::exp(penalty ? e_increment(lambda, sums.d, sums.slack, sums.p, sums.largest, kind == Kind::uniform)
                           : lambda * sums.d));
  }
  return w;
}

// Runs in which the finding is broken, of `runs` whose errors are bent.
uint64_t found(std::string_view name, const std::vector<float>& x, Kind kind, uint64_t trials, uint64_t runs,
               const SimulatedTrials::Bend& bend) {
  uint64_t count = 0;
  for (uint64_t run = 0; run < runs; ++run) {
    const SimulatedTrials bent(x, laws_of(x, kind), trials, 1000 + run, bend);
    count += finding(findings_of(bent, at_level(kLevel)), name).verdict == Verdict::broken;
  }
  return count;
}

}  // namespace

TEST_CASE("e-values of honest errors have a mean of at most 1, and not far below", "[statistical]") {
  const uint64_t runs = 100000;
  const std::vector<float> even = {0.5F, -0.3F, 1.4F, 0.8F, -1.7F, 0.1F}, rare = {0.01F, 0.02F, 0.5F, -0.01F, 0.03F};
  for (const Kind kind : {Kind::uniform, Kind::two}) {
    for (const std::vector<float>& x : {even, rare}) {
      const Moments overall = overall_w(x, kind, 8, runs), lag = lag_w(x, kind, runs);
      INFO((kind == Kind::uniform ? "uniform" : "two")
           << ": bias overall " << overall.mean() << " +- " << overall.error() << ", lag " << lag.mean() << " +- "
           << lag.error());
      CHECK(overall.mean() <= 1 + 4 * overall.error());
      CHECK(lag.mean() <= 1 + 4 * lag.error());
      if (&x == &even || kind == Kind::uniform) {
        CHECK(overall.mean() > 0.5);
        CHECK(lag.mean() > 0.5);
      }
    }
  }
  // What the penalty is for: without it the mean is well above 1.
  const Moments bare = lag_w(even, Kind::uniform, runs, false);
  CHECK(bare.mean() > 1 + 4 * bare.error());
}

TEST_CASE("plain scores of honest errors are those of a normal law where many elements carry the error",
          "[statistical]") {
  const std::vector<float> x = spread_values(10000, 1);
  const uint64_t runs = 2000;
  for (const Kind kind : {Kind::uniform, Kind::two}) {
    const std::vector<Law> laws = laws_of(x, kind);
    std::map<std::string, uint64_t> passed = {{"bias overall", 0}, {"linear x", 0}, {"variance", 0}};
    for (uint64_t run = 0; run < runs; ++run) {
      const TensorFindings findings = findings_of(SimulatedTrials(x, laws, 8, run), at_level(kLevel));
      REQUIRE(findings.effective > 5000);
      for (auto& [name, count] : passed) count += finding(findings, name).z > 1.645;
    }
    for (const auto& [name, count] : passed) {
      const double share = static_cast<double>(count) / static_cast<double>(runs);
      std::cout << (kind == Kind::uniform ? "uniform, " : "two points, ") << name << ": z > 1.645 in " << 100 * share
                << " % of " << runs << " honest runs\n";
      INFO(name);
      CHECK(share >= 0.035);
      CHECK(share <= 0.065);
    }
  }
}

TEST_CASE("thresholds are at most a fifth above those of a normal law, at 100,000 elements") {
  const std::vector<float> x = spread_values(100000, 2);
  const double one_sided = quantile(kLevel), two_sided = quantile(kLevel / 2);
  for (const Kind kind : {Kind::uniform, Kind::two}) {
    const SimulatedTrials trials(x, laws_of(x, kind), 64, 1);
    const TensorFindings findings = findings_of(trials, at_level(kLevel));
    REQUIRE(findings.effective > 5000);
    // A finding's z is its measured effect in standard deviations; so is its bound.
    const auto deviations = [&](std::string_view name, double centre) {
      const Finding& test = finding(findings, name);
      return (test.bound - centre) / ((test.measured - centre) / test.z);
    };
    INFO((kind == Kind::uniform ? "uniform" : "two points"));
    CHECK(deviations("bias overall", 0) <= 1.2 * one_sided);
    CHECK(deviations("linear x", 0) <= 1.2 * two_sided);
    CHECK(deviations("variance", 1) <= 1.2 * two_sided);
    CHECK(deviations("bias overall", 0) >= one_sided);
    CHECK(deviations("linear x", 0) >= two_sided);
    CHECK(deviations("variance", 1) >= two_sided);
  }
}

TEST_CASE("the smallest effect that a test claims to find is found nine times in ten, by however few elements",
          "[statistical]") {
  const uint64_t trials = 64, runs = 100;
  for (const Kind kind : {Kind::uniform, Kind::two}) {
    for (const size_t n : {10, 100, 1000, 10000}) {
      const std::vector<float> x = spread_values(n, 3);
      const TensorFindings honest = findings_of(SimulatedTrials(x, laws_of(x, kind), trials, 1), at_level(kLevel));

      // A bias that points nowhere: alternately up and down.
      const double bias =
          std::sqrt(finding(honest, "bias overall").smallest * honest.variance / static_cast<double>(n));
      const uint64_t overall = found("bias overall", x, kind, trials, runs,
                                     [&](size_t i, double error) { return error + (i % 2 == 0 ? bias : -bias); });
      const double slope = finding(honest, "linear x").smallest;
      const uint64_t linear = found("linear x", x, kind, trials, runs,
                                    [&](size_t i, double error) { return error + slope * static_cast<double>(x[i]); });
      const double stretch = std::sqrt(1 + finding(honest, "variance").smallest);
      const uint64_t variance =
          found("variance", x, kind, trials, runs, [&](size_t, double error) { return error * stretch; });

      INFO((kind == Kind::uniform ? "uniform" : "two points")
           << ", " << n << " elements, found in " << runs << " runs: bias overall " << overall << ", linear x "
           << linear << ", variance " << variance);
      // Five deviations of Bin(100, 0.9) would be 15; the stretched errors of few elements vary more than the law's.
      CHECK(overall >= 80);
      CHECK(linear >= 80);
      CHECK(variance >= 75);
    }
  }
}

TEST_CASE("one biased element is found by its own test alone") {
  std::vector<float> x = spread_values(20000, 4);
  x[777] = 0.5F;
  for (const Kind kind : {Kind::uniform, Kind::two}) {
    // Always half a step up, where half the time it should be.
    const SimulatedTrials::Bend stuck = [](size_t i, double error) { return i == 777 ? 0.5 - 0x1p-20 : error; };
    const SimulatedTrials::Bend stuck_up = [](size_t i, double error) { return i == 777 ? 0.5 : error; };
    const SimulatedTrials bent(x, laws_of(x, kind), 64, 5, kind == Kind::uniform ? stuck : stuck_up);
    const TensorFindings findings = findings_of(bent, at_level(kLevel));
    for (const Finding& test : findings.findings) {
      INFO(test.name << " of " << (kind == Kind::uniform ? "uniform" : "two points"));
      CHECK((test.verdict == Verdict::broken) == (test.name == "coordinate"));
    }
    CHECK(finding(findings, "coordinate").note.find("777") != std::string::npos);
  }
}

TEST_CASE("a value that decodes to what is no number is beyond its law") {
  const std::vector<float> x = spread_values(20000, 4);
  const SimulatedTrials bent(x, laws_of(x, Kind::uniform), 8, 5,
                             [](size_t i, double error) { return i == 3 ? std::nan("") : error; });
  const TensorFindings findings = findings_of(bent, at_level(kLevel));
  CHECK(finding(findings, "support").verdict == Verdict::broken);
  CHECK(finding(findings, "support").note.find("element 3 ") != std::string::npos);
  CHECK(finding(findings, "variance").verdict == Verdict::broken);
}

TEST_CASE("workers whose errors oppose each other are not independent") {
  // Trial 2k + 1 repeats trial 2k with its sign turned: no bias, and no message is at fault.
  const std::vector<float> x = spread_values(20000, 4);
  class Opposed final : public Trials {
   public:
    explicit Opposed(const SimulatedTrials& honest) : honest_(honest) {}
    uint64_t size() const override { return honest_.size(); }
    uint64_t chunk_len() const override { return honest_.chunk_len(); }
    uint64_t count() const override { return honest_.count(); }
    void load(uint64_t trial, Range range, bool whole, Sample& sample) const override {
      honest_.load(trial / 2, range, whole, sample);
      if (trial % 2 == 0) return;
      for (size_t i = 0; i < sample.decoded.size(); ++i) {
        sample.decoded[i] = sample.target[i] - (sample.decoded[i] - sample.target[i]);
      }
    }

   private:
    const SimulatedTrials& honest_;
  };
  const SimulatedTrials honest(x, laws_of(x, Kind::uniform), 32, 5);
  const TensorFindings findings = findings_of(Opposed(honest), at_level(kLevel));
  CHECK(finding(findings, "bias overall").verdict == Verdict::broken);
  CHECK(finding(findings, "bias overall").measured < 0);
  CHECK(finding(findings, "linear x").verdict != Verdict::broken);
}

TEST_CASE("a slope along targets that change from trial to trial is found, as in a narrowing") {
  // Rounded to hundredths, up more often the larger the target: only weights of the trial itself see that.
  class Changing final : public Trials {
   public:
    explicit Changing(double tilt) : tilt_(tilt) {}
    uint64_t size() const override { return 5000; }
    uint64_t chunk_len() const override { return 5000; }
    uint64_t count() const override { return 32; }
    void load(uint64_t trial, Range range, bool, Sample& sample) const override {
      const auto n = static_cast<size_t>(range.count);
      std::vector<uint32_t> words(2 * n);
      kernels::philox_words({{7, 8}, static_cast<uint32_t>(trial), 0}, 0, words.size(), words.data());
      const auto uniform = [&](size_t i) { return (static_cast<double>(words[i]) + 0.5) * 0x1p-32; };
      sample.fresh = sample.same_laws = false;
      sample.target.resize(n);
      sample.decoded.resize(n);
      sample.laws.resize(n);
      for (size_t i = 0; i < n; ++i) {
        sample.target[i] = static_cast<float>(2 * uniform(i) - 1);
        const auto target = static_cast<double>(sample.target[i]);
        const Law law = sample.laws[i] = Law::rounded_to_step(target, 0.01);
        const bool up = uniform(n + i) < law.f + tilt_ * target;
        sample.decoded[i] = static_cast<float>(target + (up ? law.hi : law.lo));
      }
    }

   private:
    double tilt_;
  };
  const TensorFindings honest = findings_of(Changing(0), at_level(kLevel));
  CHECK(honest.reason() == nullptr);
  CHECK(finding(honest, "coordinate").verdict == Verdict::not_covered);
  const TensorFindings tilted = findings_of(Changing(0.05), at_level(kLevel));
  CHECK(finding(tilted, "linear x").verdict == Verdict::broken);
  CHECK(finding(tilted, "linear x").measured > 0);
}
