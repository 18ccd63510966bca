// lowrank: matrices of a rank that is known, the view of convolutions, the expected error, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/lowrank.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

class Shaped final : public Tensor {
 public:
  Shaped(std::vector<float> values, std::vector<uint64_t> shape)
      : values_(std::move(values)), shape_(std::move(shape)) {}
  uint64_t size() const override { return values_.size(); }
  std::span<const uint64_t> shape() const override { return shape_; }
  std::span<const float> read(Range range, std::span<float>) const override {
    return std::span(values_).subspan(range.first, range.count);
  }
  const std::vector<float>& values() const { return values_; }

 private:
  std::vector<float> values_;
  std::vector<uint64_t> shape_;
};

double squares(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += double{value} * double{value};
  return sum;
}

double distance2(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  return sum;
}

// Of rank 3 about: components of falling strength, and a little of everything.
Shaped falling(uint64_t rows, uint64_t cols, float noise) {
  const std::vector<float> u = varied(3 * rows), v = varied(3 * cols + 5), more = varied(rows * cols);
  std::vector<float> x(rows * cols);
  for (uint64_t i = 0; i < rows; ++i) {
    for (uint64_t j = 0; j < cols; ++j) {
      float sum = noise * more[i * cols + j];
      for (uint64_t k = 0; k < 3; ++k) sum += u[k * rows + i] * v[k * cols + j + 5] / static_cast<float>(1 << k);
      x[i * cols + j] = sum;
    }
  }
  return {std::move(x), {rows, cols}};
}

std::unique_ptr<Encoder> prepared(const Tensor& tensor, std::string_view text, uint64_t worker = 1) {
  return parse_scheme(text).prepare(tensor, {Random({5, worker, 2}, 0), kFirstStage, 4096});
}

std::vector<float> decoded(const Encoder& encoder, const Tensor& tensor, uint64_t piece) {
  std::vector<float> out(tensor.size());
  Code code;
  for (const Range range : chunks_of(tensor.size(), piece)) {
    encoder.encode(range, code, std::span(out).subspan(range.first, range.count));
  }
  return out;
}

}  // namespace

TEST_CASE("a matrix of rank 1 has one component, and comes back") {
  // (1, 2, 2) times (2, -1, 4, 0, 6): length 3 and sqrt 57.
  const Shaped x({2, -1, 4, 0, 6, 4, -2, 8, 0, 12, 4, -2, 8, 0, 12}, {3, 5});
  const auto encoder = prepared(x, "lowrank:rank=3,nmse=1e-8");
  CHECK_THAT(encoder->decoder().describe(), Catch::StartsWith("rank 1 of 3x5, "));
  CHECK(distance2(decoded(*encoder, x, 15), x.values()) <= 1e-6 * squares(x.values()));
  CHECK(*encoder->promise().delta > 1 - 1e-6);
}

TEST_CASE("nothing is predicted of what has no rows, of zeros and of what it would not pay for") {
  for (const Shaped& x : {Shaped(varied(500), {500}), Shaped(std::vector<float>(60), {6, 10}), Shaped({}, {0, 7}),
                          Shaped({3}, {}), Shaped(varied(64), {8, 8}), Shaped(varied(100), {1, 100})}) {
    const auto encoder = prepared(x, "lowrank:rank=8,nmse=1");
    CHECK(encoder->decoder().describe() == "rank 0");
    CHECK(encoder->decoder().stored() == Bytes(1));
    CHECK(decoded(*encoder, x, 4096) == std::vector<float>(x.size()));
    CHECK(*encoder->promise().variance == Approx(squares(x.values())));
  }
}

TEST_CASE("kernels stand below each other where that takes fewer components") {
  const uint64_t out = 16, in = 20, fold = 9;
  const std::vector<float> p = varied(out * fold + 3), q = varied(in + 1);
  std::vector<float> values(out * in * fold);
  for (uint64_t o = 0; o < out; ++o) {
    for (uint64_t c = 0; c < in; ++c) {
      for (uint64_t t = 0; t < fold; ++t) values[(o * in + c) * fold + t] = p[o * fold + t + 3] * q[c + 1];
    }
  }
  const Shaped x(values, {out, in, 3, 3});
  const auto encoder = prepared(x, "lowrank:rank=4,nmse=1e-6");
  CHECK_THAT(encoder->decoder().describe(), Catch::StartsWith("rank 1 of 144x20, "));
  const std::vector<float> whole = decoded(*encoder, x, x.size());
  CHECK(distance2(whole, values) <= 1e-4 * squares(values));
  CHECK(same_bits(decoded(*encoder, x, 7), whole));  // whatever the chunks are
}

TEST_CASE("chunks are predicted alone") {
  const Shaped x = falling(90, 110, 0.02F);
  const auto encoder = prepared(x, "lowrank:rank=5,nmse=0.01");
  CHECK(same_bits(decoded(*encoder, x, 1000), decoded(*encoder, x, x.size())));
}

// A mean of 60 errors that each are a sum of some 600 terms: its deviation is below 1 % of what the coordinates' noise
// adds; seeds are fixed.
TEST_CASE("the expected error is what messages have on average") {
  const Shaped x = falling(90, 110, 0.02F);
  for (const std::string text : {"lowrank:rank=3,nmse=0.1", "lowrank:rank=3,nmse=0.001", "lowrank:rank=2"}) {
    INFO(text);
    double sum = 0;
    for (uint64_t worker = 0; worker < 60; ++worker) {
      const auto encoder = prepared(x, text, worker);
      sum += distance2(decoded(*encoder, x, x.size()), x.values());
    }
    const Promise promise = prepared(x, text)->promise();
    CHECK(*promise.variance == Approx(sum / 60).epsilon(0.03));
    CHECK(*promise.delta < 1);
    CHECK_FALSE(promise.unbiased);
  }
}

TEST_CASE("another step behind + makes other factors; coders that take scales have them") {
  const Shaped x = falling(90, 110, 0.02F);
  const auto coarse = prepared(x, "lowrank:rank=3+dither:nmse=0.1"),
             fine = prepared(x, "lowrank:rank=3+dither:nmse=1e-4");
  CHECK(coarse->decoder().stored().size() < fine->decoder().stored().size());
  CHECK(prepared(x, "lowrank:rank=3+dither:nmse=0.1")->promise().unbiased);
  Inputs inputs{Random({5, 1, 2}, 0), kFirstStage, 4096};
  inputs.scales = true;
  const auto scaled = parse_scheme("lowrank:rank=3,nmse=0.01").prepare(x, inputs);
  CHECK(same_bits(decoded(*scaled, x, 4096), decoded(*prepared(x, "lowrank:rank=3,nmse=0.01"), x, 4096)));
  const Bytes stored = scaled->decoder().stored();
  ByteReader reader(stored, "stored");
  inputs.size = x.size();
  inputs.rows = 90;
  const auto restored = parse_stored_scheme("lowrank").restore(reader, inputs);
  reader.expect_end();
  CHECK(restored->stored() == stored);
}

TEST_CASE("what no encoder stores is refused") {
  const Shaped x = falling(90, 110, 0.02F);
  Inputs inputs{Random({5, 1, 2}, 0), kFirstStage, 4096};
  inputs.size = x.size();
  inputs.rows = 90;
  const Bytes right = prepared(x, "lowrank:rank=2,nmse=0.1")->decoder().stored();
  const auto refused = [&](Bytes stored, const Inputs& of) {
    ByteReader reader(stored, "stored");
    CHECK_THROWS_AS(parse_stored_scheme("lowrank").restore(reader, of), Error);
  };
  const auto with = [&](size_t at, uint8_t value) {
    Bytes changed = right;
    changed[at] = std::byte{value};
    return changed;
  };
  for (size_t size = 0; size < right.size(); ++size)
    refused(Bytes(right.begin(), right.begin() + static_cast<ptrdiff_t>(size)), inputs);
  refused(with(0, 120), inputs);    // components, above the matrix's rank
  refused(with(1, 0), inputs);      // fold
  refused(with(1, 3), inputs);      // a fold of 3 does not divide 110
  refused(with(5, 0xFF), inputs);   // a negative weight
  refused(with(13, 0x7F), inputs);  // a step of 2^127
  Inputs flat = inputs;
  flat.rows = 0;
  refused(right, flat);
  Inputs huge = inputs;  // factors that no memory is asked for
  huge.rows = uint64_t{1} << 40;
  huge.size = uint64_t{1} << 60;
  refused(right, huge);
  CHECK_THROWS_WITH(parse_scheme("topk:k=1%/lowrank:rank=1"), Catch::Contains("no rows"));
  CHECK_THROWS_WITH(parse_scheme("lowrank:rank=129"), Catch::Contains("rank"));
  CHECK_NOTHROW(parse_scheme("ef/lowrank:rank=4+sign"));
}
