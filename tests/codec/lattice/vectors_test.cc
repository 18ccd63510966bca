// Dithered vectors: the law of the error, padding, and points as streams.
// SPDX-License-Identifier: Apache-2.0
#include "codec/lattice/vectors.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "codec/edges.h"
#include "codec/lattice/index.h"
#include "codec/lattice/table.h"
#include "codec/support.h"

using namespace gradcodec;
using namespace gradcodec::lattice;

namespace {

constexpr std::array kKinds = {Kind::a2, Kind::d4, Kind::e8};

CellDraws draws_of(uint32_t seed) { return {{{seed, 1}, 0, 0x50000}, {{seed, 1}, 0, 0x50001}}; }

struct Quantized {
  std::vector<int32_t> points;
  std::vector<float> decoded;
};

Quantized quantized(std::span<const float> x, Kind kind, float scale, uint32_t seed, uint64_t first = 0) {
  Quantized out;
  const Range range{first, x.size()};
  out.points.resize(static_cast<size_t>(vectors_of(kind, x.size()) * cell_of(kind).dimension));
  out.decoded.resize(x.size());
  quantize(x, kind, draws_of(seed), range, Scales(kind, scale), out.points.data(), out.decoded);
  std::vector<float> restored(x.size());
  restore(out.points.data(), kind, draws_of(seed), range, Scales(kind, scale), restored);
  CHECK(same_bits(restored, out.decoded));
  return out;
}

}  // namespace

// The error's mean, variance and fourth moment do not depend on x; each of the numbers is beyond 5 standard deviations
// in fewer than one of a million runs.
TEST_CASE("errors are of the cell's law whatever the values") {
  constexpr size_t kSeeds = 6000;
  const std::vector<float> x = {0.7F, -0.2F, 0.031F, 0.0F, -1.0F, 3.5F, 1e-6F, -0.999F, 0.25F, 0.5F, 100.0F};
  for (const Kind kind : kKinds) {
    const float scale = 0.5F;
    const Scales scales(kind, scale);
    const Cell cell = cell_of(kind);
    std::vector<double> sum(x.size()), squares(x.size()), fourths(x.size());
    double largest = 0;
    for (uint32_t seed = 0; seed < kSeeds; ++seed) {
      const Quantized out = quantized(x, kind, scale, seed);
      double norm = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double error = (static_cast<double>(out.decoded[i]) - static_cast<double>(x[i])) / scale;
        sum[i] += error;
        squares[i] += error * error;
        fourths[i] += std::pow(error, 4);
        norm = i % cell.dimension == 0 ? error * error : norm + error * error;
        largest = std::max(largest, norm);
      }
    }
    double fourth = 0;
    for (const double f : fourths) fourth += f / (kSeeds * static_cast<double>(x.size()));
    const double spread = std::sqrt(fourth - cell.variance * cell.variance);
    for (size_t i = 0; i < x.size(); ++i) {
      INFO("dimension " << cell.dimension << ", value " << x[i] << ", number " << i);
      CHECK(std::fabs(sum[i]) < 5 * std::sqrt(kSeeds * cell.variance));
      CHECK(std::fabs(squares[i] / kSeeds - cell.variance) < 5 * spread / std::sqrt(double{kSeeds}));
    }
    CHECK(std::sqrt(largest) <= cell.radius * 1.0001);
  }
}

TEST_CASE("the errors of a vector are uniform on its cell together, not on a cube") {
  // Where |e0| + |e1| is near 1 in D4, other coordinates are small; independent ones would be as large as anywhere.
  const std::vector<float> x(4, 0.3F);
  double near = 0, squares = 0;
  for (uint32_t seed = 0; seed < 20000; ++seed) {
    const Quantized out = quantized(x, Kind::d4, 1.0F, seed);
    std::array<double, 4> e = {};
    for (size_t i = 0; i < 4; ++i) e[i] = std::fabs(static_cast<double>(out.decoded[i]) - 0.3);
    for (size_t i = 0; i < 4; ++i) {
      for (size_t j = 0; j < i; ++j) CHECK(e[i] + e[j] <= 1.00001);  // the faces of the 24-cell
    }
    if (e[0] > 0.7) {
      near += 1;
      squares += e[1] * e[1];
    }
  }
  CHECK(near > 100);
  CHECK(squares / near < 0.03);  // |e1| is at most 0.3
}

TEST_CASE("a cut vector has the same law, and no word twice") {
  for (const Kind kind : kKinds) {
    const size_t L = cell_of(kind).dimension;
    // Chunks that end at 13 and begin there: the padding of the first is not the second's dither.
    std::vector<float> ends(L), next(L), before(L);
    cell_dithers(kind, draws_of(3), {0, L + 1}, 1, 1, ends.data());
    cell_dithers(kind, draws_of(3), {L, L}, 0, 1, next.data());
    cell_dithers(kind, draws_of(3), {0, 2 * L}, 1, 1, before.data());
    CHECK(next == before);
    CHECK(ends != next);
    double squares = 0;
    constexpr size_t kSeeds = 4000;
    for (uint32_t seed = 0; seed < kSeeds; ++seed) {
      const std::vector<float> x(L + 1, 0.4F);
      const double error = static_cast<double>(quantized(x, kind, 1.0F, seed).decoded[L]) - 0.4;
      squares += error * error;
    }
    CHECK(squares / kSeeds == Approx(cell_of(kind).variance).epsilon(0.1));  // 5 standard deviations and more
  }
}

TEST_CASE("words are those of the page") {
  const Random random({1, {}, {}}, 0);
  const CellDraws draws = draws_of(1);
  std::vector<uint32_t> words(4);
  kernels::scalar::philox_words(draws.elements, 4, 4, words.data());
  Vector<4> v, z;
  for (size_t i = 0; i < 4; ++i) v[i] = (static_cast<double>(words[i] >> 8) + 0.5) / 8388608 - 1;
  Point<4> twice;
  D4::nearest(v, twice, z);
  std::vector<float> dither(4);
  cell_dithers(Kind::d4, draws, {0, 8}, 1, 1, dither.data());
  for (size_t i = 0; i < 4; ++i) CHECK(static_cast<double>(dither[i]) == z[i]);
}

namespace {

std::vector<Stream> streams_of(Kind kind, const std::vector<int32_t>& points, IndexShape& shape) {
  std::vector<Stream> streams;
  shape = to_streams(kind, points, streams);
  const StreamShapes shapes = shape.streams(kind, points.size() / cell_of(kind).dimension);
  REQUIRE(streams.size() == shapes.size());
  for (size_t i = 0; i < streams.size(); ++i) {
    CHECK(streams[i].alphabet == shapes[i].alphabet);
    REQUIRE(streams[i].symbols.size() == shapes[i].count);
    for (const uint16_t symbol : streams[i].symbols) REQUIRE(symbol < shapes[i].alphabet);
  }
  return streams;
}

}  // namespace

TEST_CASE("points come back from their streams at every rate") {
  std::vector<float> x = varied(4001);
  for (const Kind kind : kKinds) {
    for (const float scale : {100.0F, 1.0F, 0.1F, 0.03F, 0.003F, 0.0001F}) {
      INFO("dimension " << cell_of(kind).dimension << ", scale " << scale);
      const std::vector<int32_t> points = quantized(x, kind, scale, 1).points;
      IndexShape shape;
      const std::vector<Stream> streams = streams_of(kind, points, shape);
      if (scale >= 1) CHECK(shape.escapes == 0);
      if (scale < 0.001F && kind != Kind::a2) CHECK(shape.escapes == vectors_of(kind, x.size()));
      Bytes stored;
      shape.put(stored);
      ByteReader reader(stored, "shape");
      const IndexShape taken = IndexShape::take(reader, vectors_of(kind, x.size()));
      reader.expect_end();
      std::vector<int32_t> back(points.size());
      from_streams(kind, taken, streams, back);
      CHECK(back == points);
    }
  }
}

TEST_CASE("a vector of the table is one symbol") {
  IndexShape shape;
  // 0, number 2, number 3: by turns 0, -1, 2 around a middle of 2
  const auto streams = streams_of(Kind::d4, {0, 0, 0, 0, 2, 2, 0, 0, 2, 0, 2, 0}, shape);
  CHECK(shape.joint_level == 2);
  CHECK(shape.escapes == 0);
  CHECK(streams[0].symbols == std::vector<uint16_t>{2, 1, 4});
  CHECK(streams.size() == 1);
}

TEST_CASE("an escaped vector has its coordinates, the first of them halved") {
  IndexShape shape;
  // (40, 3, -2, 1): others 3 -2 1, of even sum: 40 / 2; (-13, 30, 2, 0): others even, no: 30 + 2 + 0 is even, -13 odd
  const auto streams = streams_of(Kind::d4, {0, 0, 0, 0, 80, 6, -4, 2, 0, 0, 0, 0, -26, 60, 4, 2, 2, 2, 0, 0}, shape);
  CHECK(shape.escapes == 2);
  CHECK(shape.others_level == 30);
  CHECK(shape.first_level == 20);
  CHECK(streams[0].symbols == std::vector<uint16_t>{1, 2, 1, 2, 0});
  CHECK(streams[1].symbols == std::vector<uint16_t>{33, 28, 31, 60, 32, 31});
  CHECK(streams[2].symbols == std::vector<uint16_t>{40, 13});  // 40 = 2 20; -13 = 2 (-7) + 1
}

TEST_CASE("what no encoder writes is refused") {
  const auto take = [](std::initializer_list<uint64_t> numbers, uint64_t vectors) {
    Bytes bytes;
    for (const uint64_t number : numbers) put_varint(bytes, number);
    ByteReader reader(bytes, "shape");
    return IndexShape::take(reader, vectors);
  };
  CHECK(take({0, 32767}, 5).joint_level == 32767);
  CHECK(take({5, 0, 1, 1}, 5).escapes == 5);
  CHECK_THROWS_AS(take({0, 32768}, 5), Error);
  CHECK_THROWS_AS(take({6, 0, 1, 1}, 5), Error);
  CHECK_THROWS_AS(take({5, 1, 1, 1}, 5), Error);  // joint symbols, and none of them
  CHECK_THROWS_AS(take({4, 0, 1, 1}, 5), Error);  // escapes without a symbol
  CHECK_THROWS_AS(take({4, 1, 32768, 1}, 5), Error);
  CHECK_THROWS_AS(take({4, 1, 1}, 5), Error);

  const auto expand = [](const IndexShape& shape, std::vector<std::vector<uint16_t>> symbols) {
    std::vector<Stream> streams(symbols.size());
    for (size_t i = 0; i < symbols.size(); ++i) streams[i].symbols = symbols[i];
    std::vector<int32_t> points(8);
    from_streams(Kind::d4, shape, streams, points);
    return points;
  };
  CHECK(expand({1, 1, 30, 30}, {{1, 2}, {30, 30, 30}, {60}}) == std::vector<int32_t>{0, 0, 0, 0, 120, 0, 0, 0});
  CHECK_THROWS_AS(expand({1, 1, 30, 30}, {{1, 2}, {30, 30, 30}, {31}}), Error);          // (2, 0, 0, 0) is in the table
  CHECK_THROWS_AS(expand({1, 1, 30, 30}, {{2, 2}, {30, 30, 30}, {60}}), Error);          // two escapes
  CHECK_THROWS_AS(expand({1, 1, 30, 30}, {{1, 1}, {30, 30, 30}, {60}}), Error);          // none
  CHECK_THROWS_AS(expand({32767, 0, 0, 0}, {{0, 32767}}), Error);                        // number 65534
  CHECK(expand({0, 2, 1, 1}, {{1, 1, 1, 1, 1, 1}, {1, 1}}) == std::vector<int32_t>(8));  // by coordinates, all
}
