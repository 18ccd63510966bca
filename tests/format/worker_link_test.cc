// A link gives what compress and decompress give, step after step, and remembers on both sides.
// SPDX-License-Identifier: Apache-2.0
#include "format/worker_link.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

std::vector<TensorInfo> two_tensors() { return {{"w", {}, {30, 50}}, {"b", {}, {7}}}; }

TensorValues values_at(uint64_t step) {
  const std::vector<float> x = varied(4000);
  const auto from = x.begin() + static_cast<ptrdiff_t>(step * 11);
  return {{from, from + 1500}, {from, from + 7}};
}

WorkerLink link_of(const char* scheme, uint64_t worker = 0) {
  WorkerLink::Options options;
  options.scheme = parse_scheme(scheme);
  options.seed = 5;
  options.worker = worker;
  return {std::move(options), two_tensors()};
}

}  // namespace

TEST_CASE("what a link remembers is what was not delivered") {
  WorkerLink link = link_of("ef/topk:k=5%");
  std::vector<double> left(1500);
  for (uint64_t step = 0; step < 6; ++step) {
    const TensorValues x = values_at(step);
    const WorkerLink::Delivery done = link.send(step, x);
    CHECK(done.bytes == done.message->size());
    for (size_t i = 0; i < left.size(); ++i) {
      left[i] += static_cast<double>(x[0][i]) - static_cast<double>(done.decoded[0][i]);
      CHECK(link.sender().values(0, 0)[i] == Approx(left[i]).margin(1e-12));
    }
  }
  CHECK(link.sender().norm() > 0);
}

TEST_CASE("both ends of a link remember, and workers draw their own") {
  WorkerLink one = link_of("diana/qsgd:s=4", 1), other = link_of("diana/qsgd:s=4", 2),
             again = link_of("diana/qsgd:s=4", 1);
  for (uint64_t step = 0; step < 4; ++step) {
    const TensorValues x = values_at(step);
    const TensorValues a = one.send(step, x).decoded, b = other.send(step, x).decoded, c = again.send(step, x).decoded;
    CHECK(same_bits(a[0], c[0]));
    CHECK(!same_bits(a[0], b[0]));
  }
}

TEST_CASE("small tensors of a link go by raw, exactly") {
  WorkerLink::Options options;
  options.scheme = parse_scheme("ef/sign");
  options.min_elements = 100;
  WorkerLink link(options, two_tensors());
  const TensorValues x = values_at(3);
  CHECK(same_bits(link.send(0, x).decoded[1], x[1]));
  CHECK(link.sender().tensors() == 1);
}

TEST_CASE("links with the scale that workers agreed on have one step") {
  WorkerLink one = link_of("maxnorm:bits=3", 1), other = link_of("maxnorm:bits=3", 2);
  const TensorValues x = values_at(1), y = values_at(2);
  for (WorkerLink* link : {&one, &other}) link->share_scales({{"w", 1.75F}, {"b", 3.5F}});
  const TensorValues a = one.send(0, x).decoded, b = other.send(0, y).decoded;
  for (const TensorValues& values : {a, b}) {
    for (const float value : values[0]) CHECK(std::fmod(value, 0.25F) == 0);
    for (const float value : values[1]) CHECK(std::fmod(value, 0.5F) == 0);
    CHECK(std::any_of(values[0].begin(), values[0].end(), [](float value) { return value != 0; }));
  }
  one.share_scales({{"w", 1e-3F}});
  CHECK_THROWS_AS(one.encode(1, x), Error);
}

TEST_CASE("threads of a link change no byte") {
  WorkerLink::Options options;
  options.scheme = parse_scheme("ef/dither:nmse=0.1");
  options.chunk_log2 = 12;
  const std::vector<TensorInfo> tensors = {{"w", {}, {3, 10000}}};
  const TensorValues x = {varied(30000)};
  WorkerLink one(options, tensors);
  options.threads = 4;
  WorkerLink four(options, tensors);
  for (uint64_t step = 0; step < 3; ++step) {
    const WorkerLink::Delivery a = one.send(step, x), b = four.send(step, x);
    REQUIRE(a.bytes == b.bytes);
    Bytes left(a.bytes), right(a.bytes);
    a.message->read_at(0, left);
    b.message->read_at(0, right);
    CHECK(left == right);
    CHECK(same_bits(a.decoded[0], b.decoded[0]));
  }
}
