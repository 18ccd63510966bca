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

double width(const Law& law) {
  return law.kind == Law::none || law.kind == Law::outside || law.kind == Law::cell ? 0 : std::fabs(law.hi - law.lo);
}

// The largest |error|, centred: what float32 rounds is as large as that.
double reach(const Law& law) {
  if (law.kind == Law::cell) return law.hi;
  return law.kind == Law::sum ? width(law) * (1 + law.count / 2.0) : width(law);
}

// Of the sum of independent errors; of a subset, at most that.
double variance(const Law& law) {
  const double s = width(law), two = s * s * law.f * (1 - law.f);
  if (law.kind == Law::uniform) return s * s / 12;
  if (law.kind == Law::cell) return law.f;
  return law.kind == Law::sum ? two + s * s * law.count / 4 : two;
}

// Of e^2, or a bound of what it adds to the variance of a sum.
double variance_of_square(const Law& law) {
  const double s = width(law), sigma2 = variance(law), skew = s * s * (1 - 2 * law.f) * (1 - 2 * law.f);
  switch (law.kind) {
    case Law::uniform:
      return s * s * s * s / 180;
    case Law::subset:
      return s * s * law.f * skew;
    case Law::sum:
      return sigma2 * reach(law) * reach(law);
    case Law::cell:
      return sigma2 * law.hi * law.hi;
    default:
      return sigma2 * skew;
  }
}

double mean(const Law& law) {
  if (law.kind == Law::cell) return 0;
  return law.kind == Law::uniform ? (law.lo + law.hi) / 2 : law.lo + law.f * (law.hi - law.lo);
}

bool allows(const Law& law, double error, double eta, double target) {
  switch (law.kind) {
    case Law::point:
      return std::fabs(error - law.lo) <= 0x1p-52 * std::fabs(target);
    case Law::two:
    case Law::subset:
      return std::min(std::fabs(error - law.lo), std::fabs(error - law.hi)) <= eta;
    case Law::uniform:
      return error >= law.lo - eta && error <= law.hi + eta;
    case Law::sum: {
      const double steps = (error - law.lo) / (law.hi - law.lo) + law.count / 2.0;
      const bool among = steps >= -0.5 && steps <= law.count + 1.5;
      return among && std::fabs(steps - std::nearbyint(steps)) * width(law) <= eta;
    }
    case Law::cell:
      return std::fabs(error) <= law.hi + eta;
    case Law::none:
      return true;
    case Law::outside:
      break;
  }
  return false;
}

std::vector<float> read(const Tensor& tensor, Range range) {
  std::vector<float> values(range.count);
  const std::span<const float> there = tensor.read(range, values);
  return {there.begin(), there.end()};
}

void zero(const std::vector<Exception>& exceptions, std::vector<float>& x) {
  for (const Exception& exception : exceptions) x[exception.index] = 0;
}

// One message, with what is declared of it: of its last stage, or of one before that draws.
struct Declared {
  std::vector<float> target, decoded;
  std::vector<Law> laws;
  Promise promise;
  bool stages = false;
};

void append(std::vector<float>& all, const std::vector<float>& chunk) {
  all.insert(all.end(), chunk.begin(), chunk.end());
}

Declared declared(const SchemeChoice& choice, const Tensor& tensor, uint64_t worker, bool first = false) {
  Inputs inputs{Random({9, worker, worker}, 0), kFirstStage, kChunk, Nonfinite::keep};
  if (choice.takes_side()) inputs.side = &tensor;
  const auto encoder = choice.prepare(tensor, inputs);
  const Decoder& decoder = encoder->decoder();
  Declared out;
  out.promise = encoder->promise();
  out.stages = decoder.before() != Decoder::Before::nothing;
  const Tensor& aim = out.promise.target == nullptr ? tensor : *out.promise.target;
  Code code;
  for (const Range range : chunks_of(tensor.size(), kChunk)) {
    std::vector<float> x = read(out.stages ? tensor : aim, range), decoded(range.count), target = x;
    encoder->encode(range, code, decoded);
    if (out.stages) {
      zero(code.exceptions, x);
      target.resize(decoder.domain(range));
      decoded.resize(target.size());
      encoder->targets(code, range, x, target);
      decoder.decode_domain(code, range, decoded);
      if (decoder.before() == Decoder::Before::draw) {  // exceptions are the same in both
        zero(code.exceptions, target);
        zero(code.exceptions, decoded);
      }
    }
    std::vector<Law> laws(target.size());
    if (first) {
      decoder.first_laws(code, range, x, laws);
      decoded = target;
      target = x;
    } else {
      decoder.laws(code, range, target, laws);
    }
    append(out.target, target);
    append(out.decoded, decoded);
    out.laws.insert(out.laws.end(), laws.begin(), laws.end());
  }
  out.promise.target = nullptr;  // dies with the encoder
  return out;
}

bool draws_first(const SchemeChoice& choice) {
  const VectorTensor tensor({1.0F, 2.0F});
  const Inputs inputs{Random({9, {}, {}}, 0), kFirstStage, kChunk, Nonfinite::keep};
  return choice.prepare(tensor, inputs)->decoder().before() == Decoder::Before::draw;
}

// A rotation hands up neither errors nor a projection: over a scheme that promises only these nothing is left.
bool rotates_sparse(const SchemeChoice& choice) {
  bool rotates = false;
  for (const SchemeChoice* stage = &choice; stage != nullptr; stage = stage->inner.get()) {
    const std::string_view name = stage->scheme->name();
    if (rotates && (name == "topk" || name == "threshold")) return true;
    rotates |= name == "rotate";
  }
  return false;
}

void check_message(const SchemeChoice& choice, const Declared& message) {
  const Promise& promise = message.promise;
  double total = 0, bias2 = 0, norm2 = 0;
  bool known = true;
  for (size_t i = 0; i < message.laws.size(); ++i) {
    const Law& law = message.laws[i];
    const auto x = static_cast<double>(message.target[i]);
    const double e = static_cast<double>(message.decoded[i]) - x, eta = resolution(x, reach(law));
    norm2 += x * x;
    known &= law.kind != Law::none;
    total += variance(law);
    bias2 += mean(law) * mean(law);
    if (!allows(law, e, eta, x)) FAIL("element " << i << ", error " << e);
    if (promise.unbiased && std::fabs(mean(law)) > eta) FAIL("element " << i << " is biased");
    if (promise.max_error && !message.stages && std::fabs(e) > *promise.max_error + eta) FAIL("element " << i);
  }
  const bool promised = promise.unbiased || promise.delta || promise.inner_product || promise.variance;
  REQUIRE((promised || rotates_sparse(choice) || message.laws.empty()));
  if (message.stages || !known) return;
  if (!promise.unbiased) total += bias2;
  if (promise.variance) CHECK(*promise.variance == Approx(total).epsilon(1e-9));
  if (promise.omega) CHECK(total <= *promise.omega * norm2);
  if (promise.delta) CHECK(total <= (1 - *promise.delta) * norm2 * (1 + 0x1p-20));
}

// Sums over messages against the laws, by six standard deviations and, for rare events, Bernstein's linear term.
void check_moments(const SchemeChoice& choice, const Tensor& tensor, uint64_t messages, bool first) {
  double sum = 0, sum_variance = 0, largest = 0, slack = 0;
  double squares = 0, squares_expected = 0, squares_variance = 0, squares_largest = 0, squares_slack = 0;
  for (uint64_t worker = 0; worker < messages; ++worker) {
    const Declared message = declared(choice, tensor, worker, first);
    for (size_t i = 0; i < message.laws.size(); ++i) {
      const Law& law = message.laws[i];
      const double far = reach(law), sigma2 = variance(law);
      if (far == 0) continue;
      const auto x = static_cast<double>(message.target[i]);
      const double e = static_cast<double>(message.decoded[i]) - x - mean(law), eta = resolution(x, far);
      sum += e;
      sum_variance += law.kind == Law::subset ? width(law) * width(law) * law.f : sigma2;
      slack += eta;
      squares += e * e;
      squares_expected += sigma2;
      squares_variance += variance_of_square(law);
      squares_slack += 2 * eta * std::sqrt(sigma2) + eta * eta + far * eta;
      largest = std::max(largest, far * std::sqrt(law.kind == Law::cell ? law.count : 1));
      squares_largest = std::max(squares_largest, far * far);
    }
  }
  CHECK(std::fabs(sum) <= 6 * std::sqrt(sum_variance) + 6 * largest + slack);
  CHECK(std::fabs(squares - squares_expected) <= 6 * std::sqrt(squares_variance) + 6 * squares_largest + squares_slack);
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
      check_message(choice, declared(choice, VectorTensor(values), 1));
      if (draws_first(choice)) check_message(choice, declared(choice, VectorTensor(values), 1, true));
    }
  }
}

TEST_CASE("mean and variance of the errors are those of the laws, for every scheme", "[statistical]") {
  std::vector<float> outlier(1000, 0.01F);
  outlier[321] = 1;
  const std::vector<float> one = {0.3F}, some = {0.1F, -0.7F, 1e-3F, 0.4F, 0.9F}, rare(500, 1e-30F), same(500, 0.3F);
  for (const auto& [text, choice] : choices()) {
    for (const std::vector<float>& values : {one, some, rare, same, outlier, varied(700)}) {
      INFO(text << " on " << values.size() << " values");
      check_moments(choice, VectorTensor(values), 200, false);
      if (draws_first(choice)) check_moments(choice, VectorTensor(values), 200, true);
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
