// The laws that schemes declare are those that their errors have, and what they promise follows from them.
// SPDX-License-Identifier: Apache-2.0
#include "codec/law.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/checks/resolution.h"
#include "codec/edges.h"
#include "codec/registry.h"
#include "codec/support.h"
#include "mutants/half_dither.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kChunk = 4096;

double width(const Law& law) { return law.kind == Law::point ? 0 : law.hi - law.lo; }

// From the least error to the largest.
double breadth(const Law& law) { return width(law) * (law.kind == Law::sum ? law.count + 1.0 : 1); }

double variance(const Law& law) {
  const double s = width(law);
  if (law.kind == Law::sum) return s * s * (law.f * (1 - law.f) + law.count / 4.0);
  return law.kind == Law::two ? s * s * law.f * (1 - law.f) : s * s / 12;
}

// Of e^2.
double variance_of_square(const Law& law) {
  const double s = width(law), sigma2 = variance(law);
  if (law.kind == Law::sum) {  // 2 sigma^4 and the fourth cumulants of the parts
    const double p = law.f * (1 - law.f);
    return 2 * sigma2 * sigma2 + s * s * s * s * (p * (1 - 6 * p) - law.count / 8.0);
  }
  return law.kind == Law::two ? sigma2 * s * s * (1 - 2 * law.f) * (1 - 2 * law.f) : s * s * s * s / 180;
}

double mean(const Law& law) {
  if (law.kind == Law::two || law.kind == Law::sum) return law.lo + law.f * (law.hi - law.lo);
  return (law.lo + law.hi) / 2;
}

bool allows(const Law& law, double error, double eta) {
  if (law.kind == Law::two) return std::min(std::fabs(error - law.lo), std::fabs(error - law.hi)) <= eta;
  if (law.kind == Law::sum) {
    const double steps = (error - law.lo) / width(law) + law.count / 2.0, whole = std::nearbyint(steps);
    return whole >= 0 && whole <= law.count + 1.0 && std::fabs(steps - whole) * width(law) <= eta;
  }
  return error >= law.lo - eta && error <= law.hi + eta;
}

std::vector<float> read(const Tensor& tensor) {
  std::vector<float> values(tensor.size());
  for (const Range range : chunks_of(tensor.size(), kChunk)) {
    std::vector<float> scratch(range.count);
    const auto chunk = tensor.read(range, scratch);
    std::copy(chunk.begin(), chunk.end(), values.begin() + static_cast<ptrdiff_t>(range.first));
  }
  return values;
}

// One message, with what is declared of it.
struct Declared {
  std::vector<float> target, decoded;
  std::vector<Law> laws;
  Promise promise;
};

Declared declared(const SchemeChoice& choice, const Tensor& tensor, uint64_t worker) {
  const Inputs inputs{Random({9, worker, {}}, 0), kFirstStage, kChunk, Nonfinite::keep};
  const auto encoder = choice.prepare(tensor, inputs);
  Declared out;
  out.promise = encoder->promise();
  out.target = read(out.promise.target == nullptr ? tensor : *out.promise.target);
  out.promise.target = nullptr;  // dies with the encoder
  out.decoded.resize(tensor.size());
  out.laws.resize(tensor.size());
  Code code;
  for (const Range range : chunks_of(tensor.size(), kChunk)) {
    encoder->encode(range, code, std::span(out.decoded).subspan(range.first, range.count));
    encoder->decoder().laws(code, range, std::span(out.target).subspan(range.first, range.count),
                            std::span(out.laws).subspan(range.first, range.count));
  }
  return out;
}

void check_message(const Declared& message) {
  double total = 0, norm2 = 0;
  for (size_t i = 0; i < message.laws.size(); ++i) {
    const Law& law = message.laws[i];
    const auto x = static_cast<double>(message.target[i]);
    const double e = static_cast<double>(message.decoded[i]) - x, eta = resolution(x, breadth(law));
    norm2 += x * x;
    total += variance(law);
    if (law.kind == Law::outside || law.kind == Law::none || !allows(law, e, eta)) FAIL("element " << i);
    if (std::fabs(mean(law)) > eta) FAIL("element " << i << " is biased");
    if (message.promise.max_error && std::fabs(e) > *message.promise.max_error + eta) FAIL("element " << i);
  }
  REQUIRE(message.promise.unbiased);
  REQUIRE(message.promise.variance);
  CHECK(*message.promise.variance == Approx(total).epsilon(1e-9));
  if (message.promise.omega) CHECK(total <= *message.promise.omega * norm2);
  if (message.promise.delta) CHECK(total <= (1 - *message.promise.delta) * norm2);
}

// Sums over messages against the laws, by six standard deviations and, for rare events, Bernstein's linear term.
void check_moments(const SchemeChoice& choice, const Tensor& tensor, uint64_t messages) {
  double sum = 0, sum_variance = 0, largest = 0, slack = 0;
  double squares = 0, squares_expected = 0, squares_variance = 0, squares_slack = 0;
  for (uint64_t worker = 0; worker < messages; ++worker) {
    const Declared message = declared(choice, tensor, worker);
    for (size_t i = 0; i < message.laws.size(); ++i) {
      const Law& law = message.laws[i];
      const double s = breadth(law), sigma2 = variance(law);
      if (s == 0) continue;
      const auto x = static_cast<double>(message.target[i]);
      const double e = static_cast<double>(message.decoded[i]) - x, eta = resolution(x, s);
      sum += e;
      sum_variance += sigma2;
      slack += eta;
      squares += e * e;
      squares_expected += sigma2;
      squares_variance += variance_of_square(law);
      squares_slack += 2 * eta * std::sqrt(sigma2) + eta * eta + s * eta;
      largest = std::max(largest, s);
    }
  }
  CHECK(std::fabs(sum) <= 6 * std::sqrt(sum_variance) + 6 * largest + slack);
  CHECK(std::fabs(squares - squares_expected) <=
        6 * std::sqrt(squares_variance) + 6 * largest * largest + squares_slack);
}

// Every registered scheme that declares laws at its edges, and the half-dithered one of the tests.
std::vector<std::pair<std::string, SchemeChoice>> choices() {
  std::vector<std::pair<std::string, SchemeChoice>> out;
  for (const Scheme* scheme : all_schemes()) {
    if (scheme->carries_bytes()) continue;
    for (const std::string& text : edge_texts(*scheme)) out.emplace_back(text, parse_scheme(text));
  }
  for (const auto& [levels, bucket] : {std::pair{3, 0}, {5, 0}, {255, 0}, {257, 0}, {65535, 0}, {5, 1}, {5, 100}}) {
    out.emplace_back("half-dither with " + std::to_string(levels) + " levels, bucket " + std::to_string(bucket),
                     SchemeChoice{&half_dither_scheme(), quantizer_params(levels, bucket)});
  }
  return out;
}

}  // namespace

TEST_CASE("two-point laws: the neighbours of a value, and how likely the upper one is") {
  const Law law = Law::rounded_to_step(2.75, 1);
  CHECK(law.kind == Law::two);
  CHECK(law.lo == -0.75);
  CHECK(law.hi == 0.25);
  CHECK(law.f == 0.75);
  CHECK(mean(law) == 0);
  CHECK(variance(law) == 0.1875);
  const Law negative = Law::rounded_to_step(-2.75, 1);
  CHECK(negative.lo == -0.25);
  CHECK(negative.f == 0.25);
  const Law level = Law::rounded_to_step(-1.5, 0.5);
  CHECK(level.f == 0);
  CHECK(level.lo == 0);
  CHECK(Law::rounded(0.5, 0.25, 0.25).kind == Law::point);
}

TEST_CASE("each error is one that its law allows, and promises follow from the laws, for every scheme at its edges") {
  for (const auto& [text, choice] : choices()) {
    for (const std::vector<float>& values : edge_tensors()) {
      INFO(text << " on " << values.size() << " values");
      check_message(declared(choice, VectorTensor(values), 1));
    }
  }
}

TEST_CASE("mean and variance of the errors are those of the laws, for every scheme") {
  std::vector<float> outlier(1000, 0.01F);
  outlier[321] = 1;
  const std::vector<float> one = {0.3F}, some = {0.1F, -0.7F, 1e-3F, 0.4F, 0.9F}, rare(500, 1e-30F), same(500, 0.3F);
  for (const auto& [text, choice] : choices()) {
    for (const std::vector<float>& values : {one, some, rare, same, outlier, varied(2000)}) {
      INFO(text << " on " << values.size() << " values");
      check_moments(choice, VectorTensor(values), 300);
    }
  }
}

TEST_CASE("dqsg with clip promises the limited values") {
  const std::vector<float> x = varied(3000);
  const VectorTensor tensor(x);
  double sum = 0, squares = 0;
  for (const float value : x) sum += static_cast<double>(value);
  for (const float value : x) squares += std::pow(static_cast<double>(value) - sum / 3000, 2);
  const double limit = 1.5 * std::sqrt(squares / 3000);
  const Declared message = declared(parse_scheme("dqsg:levels=9,clip=1.5"), tensor, 1);
  size_t clipped = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::clamp(static_cast<double>(x[i]), -limit, limit);
    CHECK(static_cast<double>(message.target[i]) == Approx(expected));
    clipped += std::fabs(static_cast<double>(x[i])) > limit;
  }
  CHECK(clipped > 10);
}
