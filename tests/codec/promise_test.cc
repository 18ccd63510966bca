// What is promised of a composition holds for compositions that are run.
// SPDX-License-Identifier: Apache-2.0
#include "codec/promise.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>

#include "codec/edges.h"
#include "codec/registry.h"
#include "codec/support.h"
#include "mutants/half_dither.h"

using namespace gradcodec;

namespace {

using Values = std::vector<float>;

double norm2(const Values& x) {
  return std::accumulate(x.begin(), x.end(), 0.0, [](double sum, float value) {
    return sum + static_cast<double>(value) * static_cast<double>(value);
  });
}

Values difference(const Values& a, const Values& b) {
  Values out(a.size());
  std::transform(a.begin(), a.end(), b.begin(), out.begin(), std::minus<>());
  return out;
}

struct Stage {
  const Scheme* scheme;
  Params params;
  uint8_t stage;

  Inputs inputs(uint64_t worker) const { return {Random({11, worker, {}}, 0), stage, 4096}; }

  Values operator()(const Values& x, uint64_t worker) const {
    const VectorTensor tensor(x);
    const auto encoder = scheme->prepare(tensor, params, inputs(worker));
    Values out(x.size());
    Code code;
    encoder->encode({0, x.size()}, code, out);
    return out;
  }

  Promise promise(const Values& x) const {
    const VectorTensor tensor(x);
    return scheme->prepare(tensor, params, inputs(0))->promise();
  }
};

Stage dither(std::string_view text, uint8_t stage) {
  const SchemeChoice choice = parse_scheme(text);
  return {choice.scheme, choice.params, stage};
}

Stage half_dither(int64_t levels, uint8_t stage) { return {&half_dither_scheme(), quantizer_params(levels), stage}; }

// Keeps the `k` largest magnitudes: a projection.
Values largest(const Values& x, size_t k) {
  Values sizes = x;
  for (float& size : sizes) size = std::fabs(size);
  std::nth_element(sizes.begin(), sizes.end() - static_cast<ptrdiff_t>(k), sizes.end());
  const float threshold = *(sizes.end() - static_cast<ptrdiff_t>(k));
  Values out = x;
  for (float& value : out) value = std::fabs(value) < threshold ? 0.0F : value;
  return out;
}

Promise promise_of_largest(const Values& x, size_t k) {
  Promise promise;
  promise.delta = norm2(largest(x, k)) / norm2(x);
  promise.projection = true;
  return promise;
}

struct Measured {
  double error2 = 0, largest_error = 0, bias2 = 0, slope = 0;  // means over the messages; bias2 without its own noise
};

// Of `messages` runs of c on x.
Measured measure(const Values& x, uint64_t messages, const std::function<Values(uint64_t)>& c) {
  Measured out;
  std::vector<double> sum(x.size(), 0.0);
  double squares = 0;
  for (uint64_t worker = 0; worker < messages; ++worker) {
    const Values decoded = c(worker);
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = static_cast<double>(decoded[i]) - static_cast<double>(x[i]);
      sum[i] += e;
      squares += e * e;
      out.largest_error = std::max(out.largest_error, std::fabs(e));
      out.slope += e * static_cast<double>(x[i]);
    }
  }
  const auto r = static_cast<double>(messages);
  const double s2 = std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0);
  out.error2 = squares / r;
  out.bias2 = (s2 - squares) / (r * (r - 1));
  out.slope /= r * norm2(x);
  return out;
}

constexpr uint64_t kMessages = 400;

}  // namespace

TEST_CASE("chain: two unbiased stages stay unbiased, and within the omega of both") {
  const Values x = varied(2000);
  const Stage first = dither("dither:nmse=0.2", 0), second = half_dither(9, 1);
  const Promise both = chain(first.promise(x), second.promise(x));
  REQUIRE(both.unbiased);
  REQUIRE(both.omega);
  CHECK_FALSE(both.variance);
  const Measured run = measure(x, kMessages, [&](uint64_t worker) { return second(first(x, worker), worker); });
  CHECK(run.error2 <= *both.omega * norm2(x));
  CHECK(run.error2 > first.promise(x).variance.value());  // the second adds to it
  CHECK(std::fabs(run.bias2) < 0.01 * run.error2);
  CHECK(std::fabs(run.slope) < 0.01);
}

TEST_CASE("chain: omega is reached where both bounds are") {
  // All magnitudes equal: nmse of `dither` is exact, and the error of the first makes the second's norm (1 + omega1)
  // of x's on average.
  const Values x(4000, 0.5F);
  const Stage first = dither("dither:nmse=0.5", 0), second = dither("dither:nmse=0.25", 1);
  const Promise both = chain(first.promise(x), second.promise(x));
  REQUIRE(both.omega);
  CHECK(*both.omega == Approx(1.5 * 1.25 - 1));
  CHECK_FALSE(both.delta.has_value() == (*both.omega >= 1));
  const Measured run = measure(x, kMessages, [&](uint64_t worker) { return second(first(x, worker), worker); });
  CHECK(run.error2 == Approx(*both.omega * norm2(x)).epsilon(0.01));
}

TEST_CASE("chain: a projection before an unbiased stage stays a contraction, if its omega is below 1") {
  const Values x = varied(2000);
  const size_t k = 100;
  const Promise kept = promise_of_largest(x, k);
  const Stage after = dither("dither:nmse=0.3", 1);
  const Promise both = chain(kept, after.promise(largest(x, k)));
  CHECK_FALSE(both.unbiased);
  REQUIRE(both.delta);
  CHECK_FALSE(both.projection);
  const Measured run = measure(x, kMessages, [&](uint64_t worker) { return after(largest(x, k), worker); });
  CHECK(run.error2 <= (1 - *both.delta) * norm2(x) * 1.001);
  CHECK(run.error2 == Approx((1 - *both.delta) * norm2(x)).epsilon(0.01));  // equality: nmse is exact
  CHECK(run.bias2 > 0.05 * norm2(x));                                       // so it promises no unbiasedness
}

TEST_CASE("chain: nothing is promised where nothing holds") {
  const Values x = varied(2000);
  const size_t k = 20;
  const Stage noisy = dither("dither:nmse=2", 1);
  // omega 2 after a projection: the error passes ||x||^2.
  const Promise large = chain(promise_of_largest(x, k), noisy.promise(largest(x, k)));
  CHECK_FALSE(large.delta);
  CHECK_FALSE(large.omega);
  const Measured run = measure(x, kMessages, [&](uint64_t worker) { return noisy(largest(x, k), worker); });
  CHECK(run.error2 > norm2(x));
  // A projection after a random stage: neither unbiased nor, for this x, a contraction by the share that it keeps.
  const Promise after = chain(noisy.promise(x), promise_of_largest(x, k));
  CHECK_FALSE(after.unbiased);
  CHECK_FALSE(after.delta);
  CHECK_FALSE(after.omega);
  CHECK_FALSE(after.max_error);
}

TEST_CASE("chain: a contraction that is no projection is not passed on") {
  // A(x) = 1.5 x keeps ||A(x) - x||^2 = 0.25 ||x||^2 every time, but hands on 2.25 ||x||^2 to be coded.
  Promise stretched;
  stretched.delta = 0.75;
  const Values x = varied(100);
  CHECK_FALSE(chain(stretched, dither("dither:nmse=0.5", 1).promise(x)).delta);
}

TEST_CASE("chain and sum: what is unbiased for another target than its input promises nothing of it") {
  const Values x = varied(100);
  const VectorTensor other(x);
  Promise first = dither("dither:nmse=0.1", 0).promise(x), second = dither("dither:nmse=0.1", 1).promise(x);
  second.target = &other;
  for (const Promise& both : {chain(first, second), sum_of(first, second)}) {
    CHECK_FALSE(both.unbiased);
    CHECK_FALSE(both.omega);
    CHECK_FALSE(both.max_error);
    CHECK_FALSE(both.variance);
  }
}

TEST_CASE("sum: the error is that of the second on what the first leaves") {
  const Values x = varied(2000);
  const size_t k = 100;
  const Values rest = difference(x, largest(x, k));
  const Stage second = dither("dither:nmse=0.25", 1);
  const Promise both = sum_of(promise_of_largest(x, k), second.promise(rest));
  REQUIRE(both.unbiased);
  REQUIRE(both.omega);
  REQUIRE(both.variance);
  const Measured run = measure(x, kMessages, [&](uint64_t worker) {
    Values out = largest(x, k);
    const Values coded = second(rest, worker);
    std::transform(out.begin(), out.end(), coded.begin(), out.begin(), std::plus<>());
    return out;
  });
  CHECK(run.error2 == Approx(*both.variance).epsilon(0.01));
  CHECK(run.error2 == Approx(*both.omega * norm2(x)).epsilon(0.01));
  CHECK(std::fabs(run.bias2) < 0.01 * run.error2);
  CHECK(run.largest_error <= both.max_error.value() * (1 + 0x1p-20));
}

TEST_CASE("sum: of two contractions, what is left of what is left") {
  const Values x = varied(2000);
  const Values kept = largest(x, 50), rest = difference(x, kept), more = largest(rest, 100);
  const Promise both = sum_of(promise_of_largest(x, 50), promise_of_largest(rest, 100));
  CHECK_FALSE(both.unbiased);
  REQUIRE(both.delta);
  CHECK(norm2(difference(rest, more)) == Approx((1 - *both.delta) * norm2(x)));
}
