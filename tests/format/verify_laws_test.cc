// verify through the whole path, on schemes of each law and of two stages: honest ones pass, broken ones are caught by
// the test that should.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/checks/drawn_errors.h"
#include "format/verify_support.h"
#include "mutants/stated.h"

using namespace gradcodec;

namespace {

using Floats = std::vector<float>;
using Errors = std::vector<double>;
using Laws = std::function<void(std::span<const float>, std::span<Law>)>;
using Bend = std::function<void(Errors&, std::span<const float> target)>;

constexpr uint64_t kSeeds = 20;

Promise unbiased(bool independent) {
  Promise promise;
  promise.unbiased = true;
  promise.independent = independent;
  return promise;
}

Floats add(std::span<const float> x, const Errors& errors) {
  Floats out(x.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(static_cast<double>(x[i]) + errors[i]);
  return out;
}

// Errors of these laws on these targets, with draws of their own for each `stage`.
Errors errors_of(const Laws& laws, std::span<const float> target, const Random& random, uint8_t stage = 0) {
  std::vector<Law> list(target.size());
  laws(target, list);
  return DrawnErrors(list, random.draws(Purpose::rounding, stage)).draw();
}

// Decodes to x and an error that the laws say, bent.
Statement drawn(const Laws& laws, bool independent, const Bend& bend = {}) {
  return {.message =
              [=](std::span<const float> x, const Random& random) {
                Errors errors = errors_of(laws, x, random);
                if (bend) bend(errors, x);
                return StatedMessage{add(x, errors), {}};
              },
          .laws = laws,
          .promise = [=](std::span<const float>) { return unbiased(independent); }};
}

void sampled(std::span<const float> x, std::span<Law> laws) {
  const auto n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) laws[i] = Law::sampled(static_cast<double>(x[i]), std::ceil(n / 10), n);
}

constexpr double kStep = 0.01, kRadius = 0.01;

void noisy(std::span<const float> x, std::span<Law> laws) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double below = std::floor(static_cast<double>(x[i]) / kStep) * kStep;
    laws[i] = Law::with_noise(static_cast<double>(x[i]), below, below + kStep, 16);
  }
}

void celled(std::span<const float> x, std::span<Law> laws) {
  for (size_t i = 0; i < x.size(); ++i) {
    laws[i] = Law::in_cell(kRadius, kRadius * kRadius * DrawnErrors::kHexagon, 2, i / 2);
  }
}

void rounded(std::span<const float> x, std::span<Law> laws) {
  for (size_t i = 0; i < x.size(); ++i) laws[i] = Law::rounded_to_step(static_cast<double>(x[i]), kStep);
}

const Floats& values() {
  static const Floats x = gradient("fc1.weight", 10000);
  return x;
}

// Scaled to values of order 1 but for the tail: gradients are small.
Floats large() {
  Floats x = values();
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  const double scale = 0.02 / std::sqrt(squares / static_cast<double>(x.size()));
  for (float& value : x) value = static_cast<float>(static_cast<double>(value) * scale);
  return x;
}

std::vector<TensorFindings> run(const Statement& statement, const Floats& x, uint64_t seed = 1, uint64_t trials = 64) {
  const Stated scheme(statement);
  VerifyOptions options = verify_options(scheme, {}, seed);
  options.trials = trials;
  return verify({{"w", x}}, options);
}

// At every seed: broken, for one of these reasons.
void check_caught(const Statement& statement, const Floats& x, const std::vector<std::string>& reasons,
                  uint64_t trials = 64, size_t stage = 0) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const TensorFindings findings = run(statement, x, seed, trials).at(stage);
    INFO("seed " << seed << ": " << joined(broken(findings)));
    REQUIRE(findings.reason() != nullptr);
    CHECK(std::find(reasons.begin(), reasons.end(), findings.reason()->name) != reasons.end());
  }
}

void check_honest(const Statement& statement, const Floats& x, uint64_t seeds = kSeeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const TensorFindings& findings : run(statement, x, seed)) {
      INFO("seed " << seed << " " << findings.stage << ": " << joined(broken(findings)));
      CHECK(findings.reason() == nullptr);
    }
  }
}

// Draws of another message than the tests'.
Random fixed() { return Random({77, {}, {}}, 0); }

}  // namespace

TEST_CASE("a subset: honest, and broken ones") {
  Floats filled = large();
  for (float& value : filled) value = value == 0 ? 1e-4F : value;  // a zero may be drawn or not, and nobody sees it
  check_honest(drawn(sampled, false), filled, 5);
  const TensorFindings findings = run(drawn(sampled, false), filled).at(0);
  CHECK(finding(findings, "subset").verdict == Verdict::proved);
  CHECK(finding(findings, "lag 1").verdict == Verdict::not_covered);
  CHECK(findings.variance == Approx(9 * findings.norm * findings.norm));

  // Each element by itself, with the same probability.
  Statement one_by_one = drawn(sampled, false);
  one_by_one.message = [](std::span<const float> x, const Random& random) {
    std::vector<uint32_t> words(x.size());
    kernels::philox_words(random.draws(Purpose::subset, 0), 0, words.size(), words.data());
    Floats out(x.size(), 0.0F);
    for (size_t i = 0; i < out.size(); ++i) out[i] = words[i] % 10 == 0 ? 10 * x[i] : 0.0F;
    return StatedMessage{out, {}};
  };
  check_caught(one_by_one, filled, {"subset"}, 4);
  // Kept values as they are.
  check_caught(drawn(sampled, false,
                     [](Errors& errors, std::span<const float> x) {
                       for (size_t i = 0; i < errors.size(); ++i) {
                         errors[i] = std::fabs(errors[i]) > std::fabs(static_cast<double>(x[i])) ? 0 : errors[i];
                       }
                     }),
               filled, {"support"}, 4);
  // The same subset in every message.
  Statement reused = drawn(sampled, false);
  reused.message = [](std::span<const float> x, const Random&) {
    return StatedMessage{add(x, errors_of(sampled, x, fixed())), {}};
  };
  check_caught(reused, filled, {"bias overall"}, 16);
  // One that prefers the large: k of the largest half.
  Statement preferring = drawn(sampled, false);
  preferring.message = [](std::span<const float> x, const Random& random) {
    std::vector<size_t> order(x.size());
    std::vector<uint32_t> words(x.size());
    kernels::philox_words(random.draws(Purpose::subset, 0), 0, words.size(), words.data());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto kept = order.begin() + static_cast<ptrdiff_t>(x.size() / 10);
    const auto key = [&](size_t i) { return words[i] - (std::fabs(x[i]) > 0.02F ? words[i] / 4 : 0); };
    std::nth_element(order.begin(), kept, order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    Floats out(x.size(), 0.0F);
    for (auto i = order.begin(); i != kept; ++i) out[*i] = 10 * x[*i];
    return StatedMessage{out, {}};
  };
  check_caught(preferring, filled, {"bias overall", "linear x", "linear x/var", "linear 1", "linear sign"});
}

TEST_CASE("binomial noise: honest, and broken ones", "[statistical]") {
  const Floats tensor = large();
  check_honest(drawn(noisy, true), tensor, 5);
  CHECK(finding(run(drawn(noisy, true), tensor).at(0), "variance").verdict == Verdict::kept);
  // The mean of the noise is taken off by half a step too little.
  const auto shifted = [](Errors& errors, std::span<const float>) {
    for (double& e : errors) e += kStep / 2;
  };
  check_caught(drawn(noisy, true, shifted), tensor, {"support"}, 4);
  // By a whole one: among what the law allows, but for those at the end.
  const auto far = [](Errors& errors, std::span<const float>) {
    for (double& e : errors) e = std::min(e + kStep, 8 * kStep);
  };
  check_caught(drawn(noisy, true, far), tensor, {"bias overall", "linear x", "linear x/var", "support"}, 16);
  // Fewer coins than declared.
  const auto fewer = [](std::span<const float> x, std::span<Law> laws) {
    noisy(x, laws);
    for (Law& law : laws) law.count = 14;
  };
  Statement quieter = drawn(fewer, true);
  quieter.laws = noisy;
  check_caught(quieter, tensor, {"variance"});
}

TEST_CASE("lattice cells: honest, and broken ones", "[statistical]") {
  const Floats tensor = large();
  check_honest(drawn(celled, true), tensor, 5);
  CHECK(finding(run(drawn(celled, true), tensor).at(0), "variance").verdict == Verdict::kept);
  const auto halved = [](Errors& errors, std::span<const float>) {
    for (double& e : errors) e /= 2;
  };
  check_caught(drawn(celled, true, halved), tensor, {"variance"}, 4);
  // Uniform on a disc of the cell's radius.
  const auto disc = [](Errors& errors, std::span<const float>) {
    for (size_t i = 0; i + 1 < errors.size(); i += 2) {
      const double u = std::fabs(std::fmod(1e6 * errors[i], kRadius)) / kRadius;
      const double angle = std::atan2(errors[i + 1], errors[i]), length = kRadius * std::sqrt(u);
      errors[i] = length * std::cos(angle);
      errors[i + 1] = length * std::sin(angle);
    }
  };
  check_caught(drawn(celled, true, disc), tensor, {"variance"});
  // Dither that the decoder does not take off: added twice.
  const auto doubled = [](Errors& errors, std::span<const float>) {
    for (double& e : errors) e *= 2;
  };
  check_caught(drawn(celled, true, doubled), tensor, {"support"}, 4);
  // One dither for every second vector.
  const auto repeated = [](Errors& errors, std::span<const float>) {
    for (size_t i = 0; i + 3 < errors.size(); i += 4) {
      errors[i + 2] = errors[i];
      errors[i + 3] = errors[i + 1];
    }
  };
  check_caught(drawn(celled, true, repeated), tensor, {"lag 2"});
}

TEST_CASE("two stages, the first a draw: each is tested by itself", "[statistical]") {
  const Floats tensor = large();
  // A tenth of the elements, scaled, and then rounded.
  const auto statement = [](const Bend& first, const Bend& last) {
    return Statement{.message =
                         [=](std::span<const float> x, const Random& random) {
                           Errors chosen = errors_of(sampled, x, random, 0);
                           if (first) first(chosen, x);
                           Floats targets = add(x, chosen);
                           for (float& target : targets) target = std::fabs(target) < 1e-9F ? 0 : target;
                           Errors errors = errors_of(rounded, targets, random, 1);
                           if (last) last(errors, targets);
                           return StatedMessage{add(targets, errors), targets};
                         },
                     .laws = rounded,
                     .promise = [](std::span<const float>) { return unbiased(true); },
                     .before = Decoder::Before::draw,
                     .first_laws = sampled};
  };
  const std::vector<TensorFindings> honest = run(statement({}, {}), tensor);
  REQUIRE(honest.size() == 2);
  CHECK(honest[0].stage.empty());
  CHECK(honest[1].stage == "first stage");
  CHECK(finding(honest[0], "support").verdict == Verdict::proved);
  CHECK(finding(honest[1], "subset").verdict == Verdict::proved);
  check_honest(statement({}, {}), tensor, 3);
  // The last rounds to nearest.
  const auto nearest = [](Errors& errors, std::span<const float> target) {
    for (size_t i = 0; i < errors.size(); ++i) {
      const auto t = static_cast<double>(target[i]);
      errors[i] = std::nearbyint(t / kStep) * kStep - t;
    }
  };
  check_caught(statement({}, nearest), tensor, {"bias overall", "variance", "linear x", "linear x/var"});
  // The first leaves kept values as they are: the last is right, and told so.
  const auto unscaled = [](Errors& errors, std::span<const float> x) {
    for (size_t i = 0; i < errors.size(); ++i) {
      errors[i] = std::fabs(errors[i]) > std::fabs(static_cast<double>(x[i])) ? 0 : errors[i];
    }
  };
  check_caught(statement(unscaled, {}), tensor, {"support"}, 4, 1);
  CHECK(run(statement(unscaled, {}), tensor).at(0).reason() == nullptr);
}

TEST_CASE("two stages, the first a rotation: laws hold where it leads, and it is undone", "[statistical]") {
  Floats tensor = large();
  tensor.resize(9997);                              // three padded
  const auto rotate = [](std::span<float> block) {  // Hadamard's, of four
    const Floats v(block.begin(), block.end());
    block[0] = 0.5F * (v[0] + v[1] + v[2] + v[3]);
    block[1] = 0.5F * (v[0] - v[1] + v[2] - v[3]);
    block[2] = 0.5F * (v[0] + v[1] - v[2] - v[3]);
    block[3] = 0.5F * (v[0] - v[1] - v[2] + v[3]);
  };
  const auto statement = [&](const Bend& bend, const std::function<void(std::span<float>)>& back,
                             const std::function<void(std::span<float>)>& there) {
    return Statement{.message =
                         [=](std::span<const float> x, const Random& random) {
                           Floats targets(10000, 0.0F);
                           std::copy(x.begin(), x.end(), targets.begin());
                           for (size_t at = 0; at < targets.size(); at += 4) there(std::span(targets).subspan(at, 4));
                           Errors errors = errors_of(rounded, targets, random);
                           if (bend) bend(errors, targets);
                           return StatedMessage{add(targets, errors), {}};
                         },
                     .laws = rounded,
                     .promise = [](std::span<const float>) { return unbiased(true); },
                     .before = Decoder::Before::transform,
                     .block = 4,
                     .there = there,
                     .back = back};
  };
  const std::vector<TensorFindings> honest = run(statement({}, rotate, rotate), tensor);
  REQUIRE(honest.size() == 1);
  CHECK(finding(honest[0], "transform").verdict == Verdict::proved);
  CHECK(finding(honest[0], "variance").verdict == Verdict::kept);
  check_honest(statement({}, rotate, rotate), tensor, 3);
  const auto nearest = [](Errors& errors, std::span<const float> target) {
    for (size_t i = 0; i < errors.size(); ++i) {
      const auto t = static_cast<double>(target[i]);
      errors[i] = std::nearbyint(t / kStep) * kStep - t;
    }
  };
  check_caught(statement(nearest, rotate, rotate), tensor, {"bias overall", "variance", "linear x", "linear x/var"});
  const auto turned = [&](std::span<float> block) {  // one sign wrong
    rotate(block);
    block[2] = -block[2];
  };
  const auto scaled = [&](std::span<float> block) {
    rotate(block);
    for (float& value : block) value *= 1.0001F;
  };
  const auto nothing = [](std::span<float> block) { std::fill(block.begin(), block.end(), 0.0F); };
  check_caught(statement({}, turned, rotate), tensor, {"transform"}, 2);
  check_caught(statement({}, scaled, rotate), tensor, {"transform"}, 2);
  check_caught(statement({}, nothing, rotate), tensor, {"transform"}, 2);
  check_caught(statement({}, rotate, scaled), tensor, {"transform"}, 2);
}

TEST_CASE("a scheme without a law: what each message is promised is checked, numbers are approximate") {
  // Signs, times a scale that keeps <x', x> = ||x||^2, or the one of least error.
  const auto statement = [](bool least, double factor, double delta) {
    const auto sums = [](std::span<const float> x) {
      double magnitudes = 0, squares = 0;
      for (const float value : x) {
        magnitudes += std::fabs(static_cast<double>(value));
        squares += static_cast<double>(value) * static_cast<double>(value);
      }
      return std::pair(magnitudes, squares);
    };
    return Statement{
        .message =
            [=](std::span<const float> x, const Random&) {
              const auto [magnitudes, squares] = sums(x);
              const double scale = factor * (least ? magnitudes / static_cast<double>(x.size()) : squares / magnitudes);
              Floats out(x.size());
              for (size_t i = 0; i < out.size(); ++i) {
                out[i] = static_cast<float>(std::copysign(scale, static_cast<double>(x[i])));
              }
              return StatedMessage{out, {}};
            },
        .laws = [](std::span<const float>, std::span<Law> laws) { std::fill(laws.begin(), laws.end(), Law{}); },
        .promise =
            [=](std::span<const float> x) {
              const auto [magnitudes, squares] = sums(x);
              Promise promise;
              if (!least) promise.inner_product = 1e-6;
              promise.projection = least;
              if (least) {
                promise.delta = delta * magnitudes * magnitudes / static_cast<double>(x.size()) / squares;
              }
              return promise;
            }};
  };
  const Floats tensor = large();
  const TensorFindings straight = run(statement(false, 1, 1), tensor).at(0);
  CHECK(broken(straight).empty());
  CHECK(finding(straight, "inner product").verdict == Verdict::proved);
  CHECK(finding(straight, "linear x").verdict == Verdict::approximate);
  CHECK(finding(straight, "linear x").measured == Approx(0).margin(1e-6));
  CHECK(finding(straight, "bias overall").measured == Approx(1));  // nothing is random
  CHECK(std::isnan(straight.variance));
  CHECK(broken(run(statement(false, 1.001, 1), tensor).at(0)) == std::vector<std::string>{"inner product"});

  const TensorFindings least = run(statement(true, 1, 1 - 1e-6), tensor).at(0);
  CHECK(broken(least).empty());
  CHECK(finding(least, "contraction").verdict == Verdict::proved);
  CHECK(finding(least, "linear x").measured < -0.1);
  CHECK(broken(run(statement(true, 1, 1.01), tensor).at(0)) == std::vector<std::string>{"contraction"});
  CHECK(broken(run(statement(true, 0.5, 1 - 1e-6), tensor).at(0)) == std::vector<std::string>{"contraction"});
  // A file tells as much of its one message.
  CHECK(broken(run(statement(true, 0.5, 1 - 1e-6), tensor, 1, 1).at(0)) == std::vector<std::string>{"contraction"});
}

TEST_CASE("a contraction without chance declares its whole error, and no less") {
  const auto statement = [](double share) {
    const auto kept = [](float value) { return std::fabs(value) > 0.02F; };
    return Statement{.message =
                         [=](std::span<const float> x, const Random&) {
                           Floats out(x.begin(), x.end());
                           for (float& value : out) value = kept(value) ? value : 0;
                           return StatedMessage{out, {}};
                         },
                     .laws =
                         [=](std::span<const float> x, std::span<Law> laws) {
                           for (size_t i = 0; i < x.size(); ++i)
                             laws[i] = Law::at(kept(x[i]) ? 0 : -static_cast<double>(x[i]));
                         },
                     .promise =
                         [=](std::span<const float> x) {
                           double all = 0, lost = 0;
                           for (const float value : x) {
                             const double square = static_cast<double>(value) * static_cast<double>(value);
                             all += square;
                             lost += kept(value) ? 0 : square;
                           }
                           Promise promise;
                           promise.variance = share * lost;
                           promise.delta = 1 - share * lost / all;
                           promise.projection = true;
                           return promise;
                         }};
  };
  const Floats tensor = large();
  CHECK(broken(run(statement(1), tensor, 1, 2).at(0)).empty());
  CHECK(broken(run(statement(0.999), tensor, 1, 2).at(0)) == std::vector<std::string>{"variance bound", "contraction"});
}

TEST_CASE("a contraction promised over a transform's draws is held to the mean over messages") {
  // A fifth of each value is kept, so that the error is .64 of the squares.
  const auto statement = [](double delta, bool projection) {
    const auto nothing = [](std::span<float>) {};
    return Statement{.message =
                         [=](std::span<const float> x, const Random&) {
                           Floats out(x.begin(), x.end());
                           for (float& value : out) value *= 0.2F;
                           return StatedMessage{out, {}};
                         },
                     .laws =
                         [=](std::span<const float> x, std::span<Law> laws) {
                           for (size_t i = 0; i < x.size(); ++i) {
                             laws[i] = Law::at(static_cast<double>(0.2F * x[i]) - static_cast<double>(x[i]));
                           }
                         },
                     .promise =
                         [=](std::span<const float>) {
                           Promise promise;
                           promise.delta = delta;
                           promise.projection = projection;
                           return promise;
                         },
                     .before = Decoder::Before::transform,
                     .there = nothing,
                     .back = nothing};
  };
  const Floats tensor = large();
  const auto verdict = [&](double delta, bool projection, uint64_t trials) {
    return finding(run(statement(delta, projection), tensor, 1, trials).at(0), "contraction").verdict;
  };
  CHECK(verdict(0.36 - 1e-5, true, 4) == Verdict::proved);
  CHECK(verdict(0.36 + 1e-5, true, 4) == Verdict::broken);
  CHECK(verdict(0.36 + 1e-5, false, 64) == Verdict::undecided);  // it may be chance
  CHECK(verdict(0.9, false, 64) == Verdict::broken);
  CHECK(verdict(0.1, false, 256) == Verdict::kept);
  const TensorFindings few = run(statement(0.3, false), tensor, 1, 4).at(0);
  CHECK(finding(few, "contraction").measured == Approx(0.64).epsilon(1e-5));
  CHECK(finding(few, "contraction").trials_needed > 1000);
}
