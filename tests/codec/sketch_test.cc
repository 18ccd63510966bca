// Count sketches as tables: linear, unbiased, and how far off.
// SPDX-License-Identifier: Apache-2.0
#include "codec/sketch.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "codec/edges.h"
#include "codec/support.h"

using namespace gradcodec;

namespace {

using Floats = std::vector<float>;

SketchLayout layout(uint32_t rows, uint64_t cols, CellType type = CellType::f32, uint64_t seed = 1) {
  SketchLayout out;
  out.rows = rows;
  out.cols = cols;
  out.type = type;
  out.exponent = type == CellType::i64 ? 30 : 0;
  out.hash = Random({seed, {}, {}}, 0).run_draws(Purpose::hash, kFirstStage);
  return out;
}

Inputs inputs_of(uint64_t chunk_len = 4096) { return {Random({1, {}, {}}, 0), kFirstStage, chunk_len}; }

Table sketch(const Floats& x, const SketchLayout& of, const Inputs& inputs = inputs_of()) {
  return Table::of(VectorTensor(x), of, inputs);
}

Bytes stored(const Table& table) {
  Bytes out;
  table.store(out);
  return out;
}

Floats estimates(const Table& table, size_t n) {
  Floats out(n);
  table.estimate(0, out);
  return out;
}

// Of about normal law.
Floats normal(size_t n, uint32_t key) {
  std::vector<uint32_t> words(n);
  kernels::scalar::philox_words({{key, 9}, 0, 0}, 0, n, words.data());
  Floats x(n);
  for (size_t i = 0; i < n; ++i) {
    int32_t sum = 0;
    for (int j = 0; j < 4; ++j) sum += static_cast<int32_t>(words[i] >> (8 * j) & 0xFF) - 127;
    x[i] = static_cast<float>(sum) * 0x1p-7F;
  }
  return x;
}

double squares(const Floats& x) {
  return std::accumulate(x.begin(), x.end(), 0.0,
                         [](double sum, float v) { return sum + static_cast<double>(v) * static_cast<double>(v); });
}

Floats sum_of(const Floats& a, const Floats& b) {
  Floats out(a);
  for (size_t i = 0; i < out.size(); ++i) out[i] += b[i];
  return out;
}

// To multiples of 2^-20, whose sums are float32.
Floats coarse(Floats x) {
  for (float& value : x) value = to_units(value, 20);
  return x;
}

constexpr CellType kBoth[] = {CellType::f32, CellType::i64};

}  // namespace

TEST_CASE("a sketch by its definition") {
  const Floats x = varied(3000);
  const SketchLayout of = layout(3, 100);
  const Table table = sketch(x, of);
  for (uint32_t row = 0; row < of.rows; ++row) {
    std::vector<double> cells(of.cols);
    std::vector<uint32_t> words(x.size());
    kernels::scalar::philox_words(of.hash_of(row), 0, words.size(), words.data());
    for (size_t j = 0; j < x.size(); ++j) {
      const uint64_t rest = words[j] & 0x7FFFFFFF;
      cells[rest * of.cols >> 31] += (words[j] >> 31 != 0 ? -1 : 1) * static_cast<double>(x[j]);
    }
    for (size_t b = 0; b < of.cols; ++b) CHECK(table.floats()[row * of.cols + b] == static_cast<float>(cells[b]));
  }
}

TEST_CASE("integer sketches add up to the bit, in any order") {
  const Floats a = coarse(normal(20000, 1)), b = coarse(normal(20000, 2)), c = coarse(normal(20000, 3));
  const SketchLayout of = layout(5, 777, CellType::i64);
  const Table sa = sketch(a, of), sb = sketch(b, of), sc = sketch(c, of);
  Table forward = sa, backward = sc;
  forward.add(sb);
  forward.add(sc);
  backward.add(sb);
  backward.add(sa);
  const Bytes whole = stored(sketch(sum_of(sum_of(a, b), c), of));
  CHECK(stored(forward) == whole);
  CHECK(stored(backward) == whole);
  TableSum sum(of);
  for (const Table* part : {&sb, &sa, &sc}) sum.add(*part);
  CHECK(stored(sum.total()) == whole);
  // What is taken out again is gone.
  forward.subtract(sb);
  forward.subtract(sc);
  CHECK(stored(forward) == stored(sa));
  Table twice = sa;
  twice.add(sa);
  Table scaled = sa;
  scaled.scale(2);
  CHECK(stored(twice) == stored(scaled));
  CHECK_THROWS_WITH(scaled.scale(0.5), Catch::Contains("whole numbers"));
}

TEST_CASE("float sketches are added in float64 and rounded once") {
  const SketchLayout of = layout(1, 1);
  // 1 + 2^-25 + 2^-25 in pairs loses both; in float64 it is 1 + 2^-24, which is a tie, and with a third is not.
  const Table one = sketch({1}, of), small = sketch({0x1p-25F}, of);
  TableSum sum(of);
  sum.add(one);
  for (int i = 0; i < 3; ++i) sum.add(small);
  CHECK(std::fabs(sum.total().floats()[0]) == 1 + 0x1p-23F);
  Table pairs = one;
  for (int i = 0; i < 3; ++i) pairs.add(small);
  CHECK(std::fabs(pairs.floats()[0]) == 1);
  CHECK(std::fabs(sum.total(0.25).floats()[0]) == (1 + 0x1p-23F) / 4);
}

TEST_CASE("tables are added with weights") {
  for (const CellType type : kBoth) {
    const SketchLayout of = layout(3, 50, type);
    const Table a = sketch(coarse(normal(900, 1)), of), b = sketch(coarse(normal(900, 2)), of);
    TableSum weighted(of), repeated(of);
    weighted.add(a, 3);
    weighted.add(b, 2);
    for (const Table* part : {&a, &b, &a, &b, &a}) repeated.add(*part);
    CHECK(stored(weighted.total()) == stored(repeated.total()));
    TableSum third(of);
    if (type == CellType::i64) {
      CHECK_THROWS_WITH(third.add(a, 0.5), Catch::Contains("whole numbers"));
      continue;
    }
    third.add(a, 0.1);
    third.add(b, 0.7);
    for (size_t i = 0; i < of.cells(); ++i) {
      const double sum = 0.1 * static_cast<double>(a.floats()[i]) + 0.7 * static_cast<double>(b.floats()[i]);
      CHECK(third.total().floats()[i] == static_cast<float>(sum));
    }
  }
}

TEST_CASE("whether a sum of whole numbers is refused depends on the total, not on the way to it") {
  SketchLayout of = layout(1, 1, CellType::i64);
  of.exponent = 149;
  const Table up = sketch({0x1p-88F}, of), down = sketch({-0x1p-88F}, of);  // 2^61 units
  TableSum sum(of);
  for (int i = 0; i < 100; ++i) sum.add(up);
  CHECK_THROWS_WITH(sum.total(), Catch::Contains("63 bits"));
  for (int i = 0; i < 97; ++i) sum.add(down);
  CHECK(std::abs(sum.total().integers()[0]) == int64_t{3} << 61);
  sum.add(up);
  CHECK_THROWS_WITH(sum.total(), Catch::Contains("63 bits"));  // 2^63
  for (int i = 0; i < 7; ++i) sum.add(down);
  CHECK(std::abs(sum.total().integers()[0]) == int64_t{3} << 61);
  sum.add(down);
  CHECK_THROWS_WITH(sum.total(), Catch::Contains("63 bits"));  // -2^63, which no cell is
  sum.add(up, 0x1p53);
  sum.add(down, 0x1p53);
  sum.add(up, 4);
  CHECK(sum.total().integers()[0] == 0);
}

TEST_CASE("tables that differ are not added, and it is said in what") {
  const Table table = sketch(varied(100), layout(3, 10));
  const auto refusal = [&](const SketchLayout& other) {
    Table copy = table;
    const Table wrong = sketch(varied(100), other);
    try {
      copy.add(wrong);
    } catch (const Error& error) {
      CHECK(error.code() == Exit::usage);
      return error.text();
    }
    return std::string();
  };
  CHECK_THAT(refusal(layout(5, 10)), Catch::Contains("3 rows and 5 rows"));
  CHECK_THAT(refusal(layout(3, 11)), Catch::Contains("10 columns and 11 columns"));
  CHECK_THAT(refusal(layout(3, 10, CellType::f32, 2)), Catch::Contains("another seed or step"));
  CHECK_THAT(refusal(layout(3, 10, CellType::i64)), Catch::Contains("float32"));
  SketchLayout other = layout(3, 10);
  other.hash.ordinal = 1;
  CHECK_THAT(refusal(other), Catch::Contains("another tensor"));
  CHECK(refusal(layout(3, 10)).empty());
}

TEST_CASE("one value alone is exact, and so is its square") {
  for (const CellType type : kBoth) {
    Floats x(50, 0.0F);
    x[17] = -0.75F;
    const Table table = sketch(x, layout(3, 50, type));
    CHECK(estimates(table, 50)[17] == -0.75F);
    CHECK(table.squares() == 0.5625);
  }
}

TEST_CASE("the sketch of -x is that of x with other signs, and so are the estimates") {
  for (const CellType type : kBoth) {
    const Floats x = normal(5000, 4);
    Floats minus = x;
    for (float& value : minus) value = -value;
    for (const uint32_t rows : {1U, 3U, 5U, 9U}) {
      const Floats a = estimates(sketch(x, layout(rows, 300, type)), x.size());
      const Floats b = estimates(sketch(minus, layout(rows, 300, type)), x.size());
      for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == -b[i]);
    }
  }
}

TEST_CASE("threads, chunks and instruction sets change nothing") {
  const Floats x = normal(1'300'000, 5);
  const Loop two = [](uint64_t count, const Job& job) {
    std::thread other([&] {
      for (uint64_t i = 1; i < count; i += 2) job(i);
    });
    for (uint64_t i = 0; i < count; i += 2) job(i);
    other.join();
  };
  for (const CellType type : kBoth) {
    const SketchLayout of = layout(3, 5000, type);
    const Bytes whole = stored(sketch(x, of));
    Inputs inputs = inputs_of(10'000);
    inputs.loop = two;
    CHECK(stored(sketch(x, of, inputs)) == whole);
    REQUIRE(kernels::use_target("scalar"));
    const Table scalar = sketch(x, of);
    const Floats said = estimates(scalar, x.size());
    kernels::use_target("");
    CHECK(stored(scalar) == whole);
    CHECK(same_bits(estimates(scalar, x.size()), said));
    // In pieces, as chunks are.
    Floats pieces(x.size());
    for (size_t at = 0; at < x.size(); at += 99'999) {
      scalar.estimate(at, std::span(pieces).subspan(at, std::min<size_t>(99'999, x.size() - at)));
    }
    CHECK(same_bits(pieces, said));
  }
}

TEST_CASE("the mean of a one-row estimate is the value, its variance what collisions leave", "[statistical]") {
  const Floats x = normal(785, 6);
  const double norm2 = squares(x);
  constexpr uint64_t kCols = 40, kSeeds = 3000;
  double bias_along = 0, variance = 0, expected = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Floats said = estimates(sketch(x, layout(1, kCols, CellType::f32, seed)), x.size());
    for (size_t j = 0; j < x.size(); ++j) {
      const double e = static_cast<double>(said[j]) - static_cast<double>(x[j]);
      variance += e * e;
      bias_along += e * static_cast<double>(x[j]);
      expected += (norm2 - static_cast<double>(x[j]) * static_cast<double>(x[j])) / kCols;
    }
  }
  CHECK(variance / expected == Approx(1).epsilon(0.03));
  // <e, x> = ||S||^2 - ||x||^2 has a variance of at most 2 / cols: five deviations.
  CHECK(std::fabs(bias_along) / (norm2 * kSeeds) < 5 * std::sqrt(2.0 / kCols / kSeeds));
}

TEST_CASE("collisions are as likely as it is said") {
  CHECK(layout(1, 1).collision() == 1);
  CHECK(layout(1, 4).collision() == 0.25);
  // Of 2^31 words two buckets of three have one less.
  CHECK(layout(1, 3).collision() == Approx(1.0 / 3).epsilon(1e-15));
  CHECK(layout(1, 3).collision() > 1.0 / 3);
  const double many = layout(1, 50'000'000).collision() * 5e7;
  CHECK(many > 1);
  CHECK(many < 1 + 5e7 * 5e7 * 0x1p-62);
}

TEST_CASE("few estimates are far off", "[statistical]") {
  const Floats x = normal(7850, 7);
  constexpr uint64_t kCols = 200;
  const double far = std::sqrt(8.0 / kCols * squares(x));
  for (const uint32_t rows : {1U, 5U, 7U}) {
    uint64_t count = 0, of = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Floats said = estimates(sketch(x, layout(rows, kCols, CellType::f32, seed)), x.size());
      for (size_t j = 0; j < x.size(); ++j) {
        count += std::fabs(static_cast<double>(said[j]) - static_cast<double>(x[j])) > far;
        ++of;
      }
    }
    INFO(rows << " rows");
    const double share = static_cast<double>(count) / static_cast<double>(of);
    CHECK(share <= (rows == 1 ? 1.0 / 8 : std::exp(-0.4133 * rows)));
    if (rows == 1) CHECK(share > 0.001);  // Chebyshev's bound is loose, but there are some
  }
}

TEST_CASE("the square of the norm is told to 2 / cols", "[statistical]") {
  const Floats x = normal(7850, 8);
  double worst = 0, mean = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const double ratio = sketch(x, layout(5, 500, CellType::f32, seed)).squares() / squares(x);
    worst = std::max(worst, std::fabs(ratio - 1));
    mean += ratio / 50;
  }
  CHECK(worst < 4 * std::sqrt(2.0 / 500));
  CHECK(std::fabs(mean - 1) < 5 * std::sqrt(2.0 / 500 / 50));
}

TEST_CASE("the heaviest are found where they stand out by more than twice the error") {
  Floats x = normal(20000, 9);
  for (float& value : x) value *= 0.01F;
  std::vector<size_t> spikes;
  for (size_t i = 0; i < 50; ++i) {
    spikes.push_back(7 + 397 * i);
    x[spikes.back()] = (i % 2 == 0 ? 1.0F : -1.0F) * (0.5F + static_cast<float>(i) / 50);
  }
  const Floats said = estimates(sketch(x, layout(7, 2000)), x.size());
  double tau = 0;
  for (size_t j = 0; j < x.size(); ++j) {
    tau = std::max(tau, std::fabs(static_cast<double>(said[j]) - static_cast<double>(x[j])));
  }
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return std::fabs(said[a]) > std::fabs(said[b]); });
  std::vector<float> sizes;
  for (const float value : x) sizes.push_back(std::fabs(value));
  std::sort(sizes.rbegin(), sizes.rend());
  constexpr size_t kCandidates = 100;
  const double recall = static_cast<double>(sizes[kCandidates]) + 2 * tau;
  size_t beyond = 0;
  for (size_t j = 0; j < x.size(); ++j) {
    if (static_cast<double>(std::fabs(x[j])) <= recall) continue;
    ++beyond;
    CHECK(std::find(order.begin(), order.begin() + kCandidates, j) != order.begin() + kCandidates);
  }
  CHECK(beyond >= 40);  // the bound says something
}

TEST_CASE("the table remembers: what was sent is taken out, or its cells are cleared") {
  for (const CellType type : kBoth) {
    Floats x(4000, 0.0F);
    for (size_t i = 0; i < 10; ++i) x[i * 397] = static_cast<float>(i + 1) / 4;
    const SketchLayout of = layout(5, 500, type);
    Table error = sketch(x, of);
    error.add(sketch(x, of));  // two workers, or two steps
    std::vector<uint64_t> places;
    Floats values;
    const Floats said = estimates(error, x.size());
    for (size_t i = 5; i < 10; ++i) {
      places.push_back(i * 397);
      values.push_back(said[i * 397]);
    }
    const Table sent = Table::of(of, places, values);
    Floats dense(x.size(), 0.0F);
    for (size_t i = 0; i < places.size(); ++i) dense[places[i]] = values[i];
    CHECK(stored(sent) == stored(sketch(dense, of)));

    Table subtracted = error;
    subtracted.subtract(sent);
    const Floats rest = estimates(subtracted, x.size());
    for (const uint64_t place : places) CHECK(rest[place] == 0);
    CHECK(rest[397] == said[397]);
    Table cleared = error;
    cleared.clear_where(sent);
    const Floats left = estimates(cleared, x.size());
    for (const uint64_t place : places) CHECK(left[place] == 0);
    CHECK(left[397] == said[397]);
    CHECK_THROWS_AS(cleared.clear_where(Table(layout(3, 500, type))), Error);
  }
}

TEST_CASE("what cannot be held is refused, not cut off") {
  const Floats large(400, 0x1p126F);  // of random signs their sum is about 20 of them
  CHECK_THROWS_WITH(sketch(large, layout(1, 1)), Catch::Contains("would pass"));
  SketchLayout of = layout(1, 1, CellType::i64);
  of.exponent = 62;
  CHECK_NOTHROW(sketch({1}, of));
  of.exponent = 63;
  CHECK_THROWS_WITH(sketch({1}, of), Catch::Contains("would pass"));
  of.exponent = 62;
  Table half = sketch({1}, of);
  const Table again = half;
  CHECK_THROWS_WITH(half.add(again), Catch::Contains("would pass"));
  CHECK_THROWS_WITH(Table(layout(63, 1'100'000)), Catch::Contains("2^26 cells") || Catch::Contains("2^28"));
  CHECK_THROWS_WITH(Table(layout(5, 20'000'000)), Catch::Contains("400000000 bytes"));
  CHECK_THROWS_WITH(Table(layout(1, kMaxCells + 1, CellType::i64)), Catch::Contains("2^26 cells"));
}

TEST_CASE("whole numbers are rounded to even, and stored in as few bytes as hold all") {
  CHECK(to_units(0.5F, 0) == 0);
  CHECK(to_units(1.5F, 0) == 2);
  CHECK(to_units(-2.5F, 0) == -2);
  CHECK(to_units(0x1p-149F, 149) == 0x1p-149F);
  CHECK(to_units(0x1.fffffep30F, 3) == 0x1.fffffep30F);
  SketchLayout of = layout(1, 1, CellType::i64);
  of.exponent = 0;
  for (const auto& [value, width] : std::vector<std::pair<float, unsigned>>{
           {0, 1}, {1, 1}, {127, 1}, {128, 2}, {32767, 2}, {32768, 3}, {0x1p31F, 5}, {0x1p62F, 8}}) {
    const Table table = sketch({value}, of);
    const Bytes bytes = stored(table);
    CHECK(bytes.size() == 2 + width);
    CHECK(bytes[1] == std::byte(width));
    ByteReader in(bytes, "it");
    const Table again = Table::parse(of, 1, in);
    in.expect_end();
    CHECK(again.integers()[0] == table.integers()[0]);
    CHECK(estimates(again, 1)[0] == value);
  }
}

TEST_CASE("tables that no encoder stores are refused") {
  const auto refused = [](const Bytes& bytes, uint64_t size, CellType type, const std::string& why) {
    SketchLayout of = layout(3, 0, type);
    ByteReader in(bytes, "the table");
    CHECK_THROWS_WITH(Table::parse(of, size, in), Catch::Contains(why));
  };
  const auto of_columns = [](uint64_t cols, size_t more, uint8_t fill = 0) {
    Bytes out;
    put_varint(out, cols);
    out.resize(out.size() + more, std::byte{fill});
    return out;
  };
  refused(of_columns(0, 0), 5, CellType::f32, "0 columns");
  refused(of_columns(6, 72), 5, CellType::f32, "6 columns for 5 elements");
  refused(of_columns(1, 12), 0, CellType::f32, "1 columns for 0 elements");
  refused(of_columns(uint64_t{1} << 60, 12), uint64_t{1} << 61, CellType::f32, "2^26 cells");
  refused(of_columns((uint64_t{1} << 62) + 1, 12), uint64_t{1} << 62, CellType::f32, "columns");
  refused(of_columns(20'000'000, 100), 20'000'000, CellType::f32, "ends too early");
  refused(of_columns(2, 23), 5, CellType::f32, "ends too early");
  refused(of_columns(2, 24, 0xFF), 5, CellType::f32, "not finite");
  Bytes minus = of_columns(1, 12);
  minus[4] = std::byte{0x80};
  refused(minus, 5, CellType::f32, "-0");
  Bytes wide = of_columns(1, 7);
  wide[1] = std::byte{2};
  refused(wide, 5, CellType::i64, "more bytes than they need");
  wide[1] = std::byte{9};
  refused(wide, 5, CellType::i64, "9 bytes a cell");
  wide[1] = std::byte{0};
  refused(wide, 5, CellType::i64, "0 bytes a cell");
  Bytes least = of_columns(1, 25);
  least[1] = std::byte{8};
  least[9] = std::byte{0x80};
  refused(least, 5, CellType::i64, "-2^63");
}

TEST_CASE("a tensor of nothing has a table of nothing") {
  for (const CellType type : kBoth) {
    const Table table = sketch({}, layout(5, 0, type));
    CHECK(stored(table) == Bytes(1, std::byte{0}));
    CHECK(table.squares() == 0);
    CHECK(table.layout().collision() == 0);
  }
}

TEST_CASE("what is not regular is nothing to a sketch") {
  const Floats x = {1, std::numeric_limits<float>::infinity(), 0x1p127F, std::nanf(""), -2};
  const Floats without = {1, 0, 0, 0, -2};
  for (const CellType type : kBoth)
    CHECK(stored(sketch(x, layout(3, 2, type))) == stored(sketch(without, layout(3, 2, type))));
}
