// dqsg and dither on real gradients, against the formula written out plainly over Random123.
// SPDX-License-Identifier: Apache-2.0
#include <Random123/philox.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "codec/support.h"
#include "format/dumps/open.h"

using namespace gradcodec;

namespace {

constexpr uint64_t kSeed = 0x0123456789ABCDEF;
constexpr uint32_t kWorker = 5;
constexpr uint64_t kStep = (uint64_t{1} << 33) + 17;
constexpr uint32_t kOrdinal = 3;

std::vector<float> gradient(const std::string& name) {
  const auto source = open_source(GRADCODEC_SOURCE_DIR "/tests/data/fc.h5", {}, nullptr);
  for (size_t i = 0; i < source->tensors().size(); ++i) {
    if (source->tensors()[i].name != name) continue;
    std::vector<float> values(source->tensors()[i].size());
    source->open(i)->read({0, values.size()}, std::as_writable_bytes(std::span(values)));
    return values;
  }
  FAIL("no tensor " << name);
  return {};
}

// v of coordinate i, straight from the specification.
double draw(uint64_t i) {
  static const r123::Philox4x32::key_type key = [] {
    const r123::Philox4x32::key_type seed = {{static_cast<uint32_t>(kSeed), static_cast<uint32_t>(kSeed >> 32)}};
    const r123::Philox4x32::ctr_type scope = {
        {static_cast<uint32_t>(kStep), static_cast<uint32_t>(kStep >> 32), kWorker, 0x6D736731}};
    const auto words = r123::Philox4x32()(scope, seed);
    return r123::Philox4x32::key_type{{words[0], words[1]}};
  }();
  const uint64_t block = i / 4;
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), kOrdinal, 1U << 16}};
  const uint32_t word = r123::Philox4x32()(counter, key)[i % 4];
  return (static_cast<double>(word >> 9) + 0.5) / 8388608.0;
}

// The symbol q of x, M levels a side.
long expected_symbol(float x, float step, long m, double v) {
  double a = std::fabs(static_cast<double>(x / step));  // float32 division
  if (2 * m + 1 > 255) a = std::fabs(static_cast<double>(x)) / static_cast<double>(step);
  const double k = std::floor(a);
  double g = a - k;
  if (2 * m + 1 > 255)
    g = (std::fabs(static_cast<double>(x)) - k * static_cast<double>(step)) / static_cast<double>(step);
  const bool up = std::signbit(x) && x != 0 ? g > v : g > 1 - v;
  const long q = std::min(static_cast<long>(k) + (up ? 1 : 0), m);
  return std::signbit(x) && x != 0 ? -q : q;
}

void compare(const std::vector<float>& x, const std::string& scheme, uint64_t bucket) {
  constexpr uint64_t kChunk = 4096;
  const RoundTrip trip =
      round_trip(VectorTensor(x), scheme, {kSeed, kWorker, kStep}, kChunk, Nonfinite::error, kOrdinal);
  size_t wrong = 0, beyond = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t chunk = i / kChunk;
    float step;
    const std::byte* from =
        bucket == 0 ? trip.stored.data() : trip.chunks[chunk].params.data() + 4 * (i % kChunk / bucket);
    std::memcpy(&step, from, sizeof(step));
    const long m = trip.chunks[chunk].streams[0].alphabet / 2;
    const double v = draw(i);
    float expected = 0;
    if (step > 0) {
      const long q = expected_symbol(x[i], step, m, v);
      expected = (static_cast<float>(q) - static_cast<float>(v - 0.5)) * step;
    }
    wrong += std::bit_cast<uint32_t>(expected) != std::bit_cast<uint32_t>(trip.decoded[i]) ? 1 : 0;
    const double y = step > 0 ? std::fabs(static_cast<double>(x[i]) / static_cast<double>(step)) : 0;
    const double eta = static_cast<double>(step) * (0x1p-23 + y * 0x1p-24) +
                       0x1p-23 * (std::fabs(static_cast<double>(x[i])) + static_cast<double>(step));
    const double error = std::fabs(static_cast<double>(trip.decoded[i]) - static_cast<double>(x[i]));
    beyond += error > static_cast<double>(step) / 2 + eta ? 1 : 0;
  }
  INFO(scheme << " on " << x.size() << " values");
  CHECK(wrong == 0);
  CHECK(beyond == 0);
}

}  // namespace

TEST_CASE("on real gradients, the decoded values are the formula's, bit for bit") {
  for (const char* name : {"fc1.weight", "fc2.weight", "fc1.bias"}) {
    std::vector<float> x = gradient(name);
    x.resize(std::min<size_t>(x.size(), 40000));
    for (const char* scheme : {"dqsg:levels=3", "dqsg:levels=5", "dqsg:levels=255", "dqsg:levels=65535",
                               "dither:nmse=0.3", "dither:nmse=0.1", "dither:nmse=0.001"}) {
      compare(x, scheme, 0);
      compare(x, std::string(scheme) + ",bucket=500", 500);
    }
  }
}
