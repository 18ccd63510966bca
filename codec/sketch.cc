// SPDX-License-Identifier: Apache-2.0
#include "codec/sketch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "codec/room.h"
#include "codec/scan.h"
#include "codec/summable.h"

namespace gradcodec {
namespace {

constexpr uint64_t kBatch = uint64_t{1} << 20;  // elements that are read before each row takes them: its cells stay
constexpr size_t kTerms = 4096;                 // of a row, that are made at once
constexpr size_t kEstimates = size_t{1} << 20;  // of all rows, that are held at once

[[noreturn]] void too_large(const SketchLayout& layout, const std::string& what) {
  throw Error(Exit::limit, "a sketch of " + std::to_string(layout.rows) + " rows and " + std::to_string(layout.cols) +
                               " columns " + what + ": fewer columns, or fewer rows");
}

[[noreturn]] void overflows() {
  throw Error(
      Exit::limit,
      "a cell of the sketch would pass what it can hold, and no cell is cut off: a smaller 'exp', more columns, "
      "or smaller values");
}

void check_size(const SketchLayout& layout) {
  if (layout.type == CellType::f32 && layout.cells() > kMaxTableBytes / sizeof(float)) {
    too_large(layout,
              "takes " + std::to_string(layout.cells() * sizeof(float)) + " bytes, and a frame holds less than 2^28");
  }
  if (layout.cells() > kMaxCells) too_large(layout, "has more than 2^26 cells");
}

// Bytes that hold every cell in two's complement.
uint32_t width_of(std::span<const int64_t> cells) {
  uint64_t all = 0;
  for (const int64_t cell : cells) all |= static_cast<uint64_t>(cell < 0 ? ~cell : cell);
  return static_cast<uint32_t>(std::bit_width(all)) / 8 + 1;
}

void put_integers(std::span<const int64_t> cells, Bytes& out) {
  const uint32_t width = width_of(cells);
  put(out, static_cast<uint8_t>(width));
  const size_t at = out.size();
  out.resize(at + cells.size() * width);
  std::byte* to = out.data() + at;
  for (const int64_t cell : cells) {
    const int64_t word = little(cell);
    std::memcpy(to, &word, width);
    to += width;
  }
}

void take_integers(ByteReader& in, std::span<int64_t> cells, ByteView bytes, uint32_t width) {
  const unsigned unused = 64 - 8 * width;
  const std::byte* from = bytes.data();
  for (int64_t& cell : cells) {
    uint64_t word = 0;
    std::memcpy(&word, from, width);
    from += width;
    cell = static_cast<int64_t>(little(word) << unused) >> unused;
    if (cell == std::numeric_limits<int64_t>::min()) in.fail("has a cell of -2^63");
  }
  if (width_of(cells) != width) in.fail("has cells in more bytes than they need");
}

// To nearest, ties to even; y is a float32 times a power of two, so that it is whole from 2^24 on.
double to_whole(double y) {
  constexpr double kShift = 0x1.8p52;
  return std::fabs(y) < 0x1p50 ? (y + kShift) - kShift : y;
}

double unit_of(uint32_t exponent) { return std::bit_cast<double>(uint64_t{1023 - exponent} << 52); }

// Adds x, `n` values from coordinate `first` on, to a row.
void add_floats(const SketchLayout& layout, uint32_t row, uint64_t first, std::span<const float> x,
                std::span<double> cells) {
  std::array<uint32_t, kTerms> buckets;
  std::array<float, kTerms> terms;
  const kernels::Draws draws = layout.hash_of(row);
  const auto cols = static_cast<uint32_t>(layout.cols);
  for (size_t at = 0; at < x.size(); at += kTerms) {
    const size_t len = std::min(kTerms, x.size() - at);
    kernels::sketch_terms(draws, first + at, x.data() + at, len, cols, buckets.data(), terms.data());
    for (size_t i = 0; i < len; ++i) cells[buckets[i]] += static_cast<double>(terms[i]);
  }
}

// False if a cell would not hold its sum.
bool add_integers(const SketchLayout& layout, uint32_t row, uint64_t first, std::span<const float> x,
                  std::span<int64_t> cells) {
  std::array<uint32_t, kTerms> buckets;
  std::array<float, kTerms> terms;
  const kernels::Draws draws = layout.hash_of(row);
  const auto cols = static_cast<uint32_t>(layout.cols);
  const double units = 1 / unit_of(layout.exponent);
  bool fits = true;
  for (size_t at = 0; at < x.size(); at += kTerms) {
    const size_t len = std::min(kTerms, x.size() - at);
    kernels::sketch_terms(draws, first + at, x.data() + at, len, cols, buckets.data(), terms.data());
    for (size_t i = 0; i < len; ++i) {
      const double y = static_cast<double>(terms[i]) * units;
      if (!(std::fabs(y) < 0x1p63)) return false;
      int64_t& cell = cells[buckets[i]];
      fits = !__builtin_add_overflow(cell, static_cast<int64_t>(to_whole(y)), &cell) &&
             cell != std::numeric_limits<int64_t>::min() && fits;
    }
  }
  return fits;
}

void require_same(const SketchLayout& a, const SketchLayout& b) {
  const std::string text = a.difference(b);
  if (!text.empty())
    throw Error(Exit::usage, "sketches that differ (" + text +
                                 ") cannot be added: give all workers one --scheme, --seed and --step");
}

void run(const Loop& loop, uint64_t count, const Job& job) {
  if (loop && count > 1) return loop(count, job);
  for (uint64_t i = 0; i < count; ++i) job(i);
}

// The regular values of `range` into `out`, zeros for the others.
void read_batch(const Tensor& tensor, Range range, const Inputs& inputs, std::span<float> out) {
  const uint64_t piece = std::min(kBatch, std::max<uint64_t>(1, inputs.chunk_len));
  run(inputs.loop, (range.count + piece - 1) / piece, [&](uint64_t i) {
    const Range part{range.first + i * piece, std::min(piece, range.count - i * piece)};
    const std::span<float> room = out.subspan(static_cast<size_t>(i * piece), static_cast<size_t>(part.count));
    const std::span<const float> x = tensor.read(part, room);
    if (x.data() != room.data()) std::copy(x.begin(), x.end(), room.begin());
    if (extent_of(room).irregular == 0) return;
    for (float& value : room) {
      if (!fits(std::bit_cast<uint32_t>(value), std::numeric_limits<double>::infinity())) value = 0;
    }
  });
}

}  // namespace

float to_units(float x, uint32_t exponent) {
  const double unit = unit_of(exponent);
  return static_cast<float>(to_whole(static_cast<double>(x) / unit) * unit);
}

std::string SketchLayout::difference(const SketchLayout& other) const {
  const auto both = [](uint64_t a, uint64_t b, const std::string& what) {
    return std::to_string(a) + what + " and " + std::to_string(b) + what;
  };
  if (rows != other.rows) return both(rows, other.rows, " rows");
  if (cols != other.cols) return both(cols, other.cols, " columns");
  if (type != other.type) return "cells of float32 and of whole numbers";
  if (exponent != other.exponent) {
    return "units of 2^-" + std::to_string(exponent) + " and of 2^-" + std::to_string(other.exponent);
  }
  if (hash.key != other.hash.key) return "hashes of another seed or step";
  if (hash.ordinal != other.hash.ordinal || hash.tag != other.hash.tag) return "hashes of another tensor or stage";
  return "";
}

double SketchLayout::collision() const {
  if (cols == 0) return 0;
  constexpr uint64_t kWords = uint64_t{1} << 31;
  const uint64_t each = kWords / cols;  // or one more
  const auto fewer = static_cast<double>(each), larger = static_cast<double>(kWords % cols);
  const double equal = static_cast<double>(cols) - larger;
  return (larger * (fewer + 1) * (fewer + 1) + equal * fewer * fewer) * 0x1p-62;
}

Table::Table(const SketchLayout& layout) : layout_(layout) {
  check_size(layout);
  const auto cells = static_cast<size_t>(layout.cells());
  if (layout.type == CellType::f32) {
    floats_.resize(cells);
  } else {
    integers_.resize(cells);
  }
}

void Table::round_from(std::span<const double> sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto cell = static_cast<float>(sums[i]) + 0.0F;
    if (!std::isfinite(cell)) overflows();
    floats_[i] = cell;
  }
}

Table Table::of(const Tensor& tensor, const SketchLayout& layout, const Inputs& inputs) {
  Table table(layout);
  const auto cols = static_cast<size_t>(layout.cols);
  std::vector<double> sums(layout.type == CellType::f32 ? table.floats_.size() : 0);
  std::vector<float> room(static_cast<size_t>(std::min(kBatch, tensor.size())));
  std::atomic<bool> fit = true;
  for (uint64_t first = 0; first < tensor.size(); first += kBatch) {
    const Range range{first, std::min(kBatch, tensor.size() - first)};
    const std::span<float> x = std::span(room).first(static_cast<size_t>(range.count));
    read_batch(tensor, range, inputs, x);
    run(inputs.loop, layout.rows, [&](uint64_t row) {
      const auto number = static_cast<uint32_t>(row);
      const size_t at = static_cast<size_t>(row) * cols;
      if (layout.type == CellType::f32) {
        add_floats(layout, number, first, x, std::span(sums).subspan(at, cols));
      } else if (!add_integers(layout, number, first, x, std::span(table.integers_).subspan(at, cols))) {
        fit = false;
      }
    });
    if (!fit) overflows();
  }
  table.round_from(sums);
  return table;
}

Table Table::of(const SketchLayout& layout, std::span<const uint64_t> places, std::span<const float> values) {
  Table table(layout);
  const auto cols = static_cast<size_t>(layout.cols);
  std::vector<double> sums(layout.type == CellType::f32 ? table.floats_.size() : 0);
  bool fit = true;
  for (uint32_t row = 0; row < layout.rows; ++row) {
    for (size_t i = 0; i < places.size(); ++i) {
      const std::span<const float> x = values.subspan(i, 1);
      if (layout.type == CellType::f32) {
        add_floats(layout, row, places[i], x, std::span(sums).subspan(row * cols, cols));
      } else {
        fit &= add_integers(layout, row, places[i], x, std::span(table.integers_).subspan(row * cols, cols));
      }
    }
  }
  if (!fit) overflows();
  table.round_from(sums);
  return table;
}

Table Table::parse(SketchLayout layout, uint64_t size, ByteReader& in) {
  layout.cols = in.get_varint();
  if ((layout.cols == 0) != (size == 0) || layout.cols > size) {
    in.fail("says " + std::to_string(layout.cols) + " columns for " + std::to_string(size) + " elements");
  }
  if (layout.cols > kMaxCells || layout.cells() > kMaxCells) in.fail("says more than 2^26 cells");
  if (size == 0) return Table(layout);
  const auto width = layout.type == CellType::f32 ? uint8_t{sizeof(float)} : in.get<uint8_t>();
  if (width == 0 || width > 8) in.fail("says " + std::to_string(width) + " bytes a cell");
  const ByteView bytes = in.get_bytes(layout.cells() * width);  // before anything of that size is made
  if (bytes.size() > kMaxTableBytes) in.fail("has a table that no encoder writes");
  Table table(layout);
  if (layout.type == CellType::i64) {
    take_integers(in, table.integers_, bytes, width);
    return table;
  }
  load_little(bytes.data(), std::span(table.floats_));
  for (const float cell : table.floats_) {
    if (!std::isfinite(cell) || std::bit_cast<uint32_t>(cell) == 0x80000000) {
      in.fail("has a cell that is not finite, or -0");
    }
  }
  return table;
}

void Table::store(Bytes& out) const {
  put_varint(out, layout_.cols);
  if (layout_.cols == 0) return;
  if (layout_.type == CellType::f32) return put_bytes(out, LittleBytes<float>(floats_));
  const uint64_t bytes = layout_.cells() * width_of(integers_);
  if (bytes > kMaxTableBytes) {
    too_large(layout_, "takes " + std::to_string(bytes) + " bytes, and a frame holds less than 2^28");
  }
  put_integers(integers_, out);
}

void Table::add(const Table& other) {
  require_same(layout_, other.layout_);
  for (size_t i = 0; i < floats_.size(); ++i) {
    const auto cell = static_cast<float>(static_cast<double>(floats_[i]) + static_cast<double>(other.floats_[i]));
    if (!std::isfinite(cell)) overflows();
    floats_[i] = cell;
  }
  for (size_t i = 0; i < integers_.size(); ++i) {
    int64_t& cell = integers_[i];
    if (__builtin_add_overflow(cell, other.integers_[i], &cell) || cell == std::numeric_limits<int64_t>::min()) {
      overflows();
    }
  }
}

void Table::subtract(const Table& other) {
  Table negative = other;
  for (float& cell : negative.floats_) cell = 0.0F - cell;  // never -0
  for (int64_t& cell : negative.integers_) cell = -cell;
  add(negative);
}

void Table::scale(double factor) {
  if (!std::isfinite(factor)) throw Error(Exit::usage, "a sketch is scaled by a finite number");
  for (float& cell : floats_) {
    cell = static_cast<float>(static_cast<double>(cell) * factor) + 0.0F;
    if (!std::isfinite(cell)) overflows();
  }
  if (layout_.type == CellType::f32) return;
  if (!(std::fabs(factor) < 0x1p63) || static_cast<double>(static_cast<int64_t>(factor)) != factor) {
    throw Error(Exit::usage, "cells that are whole numbers are scaled by whole numbers alone");
  }
  const auto whole = static_cast<int64_t>(factor);
  for (int64_t& cell : integers_) {
    if (__builtin_mul_overflow(cell, whole, &cell) || cell == std::numeric_limits<int64_t>::min()) overflows();
  }
}

void Table::clear_where(const Table& other) {
  require_same(layout_, other.layout_);
  for (size_t i = 0; i < floats_.size(); ++i) floats_[i] = other.floats_[i] == 0 ? floats_[i] : 0;
  for (size_t i = 0; i < integers_.size(); ++i) integers_[i] = other.integers_[i] == 0 ? integers_[i] : 0;
}

void Table::estimate_floats(uint64_t first, std::span<float> out) const {
  const size_t most = std::max(kTerms, std::bit_floor(kEstimates / layout_.rows));
  const auto cols = static_cast<size_t>(layout_.cols);
  Room<float> room;
  for (size_t at = 0; at < out.size(); at += most) {
    const size_t len = std::min(most, out.size() - at);
    const std::span<float> rows = room.first(layout_.rows * len);
    for (uint32_t row = 0; row < layout_.rows; ++row) {
      kernels::sketch_row(layout_.hash_of(row), first + at, len, static_cast<uint32_t>(cols),
                          floats_.data() + row * cols, rows.data() + row * len);
    }
    kernels::sketch_medians(rows.data(), len, layout_.rows, len, out.data() + at);
  }
}

void Table::estimate_integers(uint64_t first, std::span<float> out) const {
  const size_t most = std::max(kTerms, std::bit_floor(kEstimates / layout_.rows));
  const auto cols = static_cast<size_t>(layout_.cols);
  const auto unit = static_cast<float>(unit_of(layout_.exponent));
  Room<uint32_t> words_room;
  Room<int64_t> room;
  for (size_t at = 0; at < out.size(); at += most) {
    const size_t len = std::min(most, out.size() - at);
    const std::span<uint32_t> words = words_room.first(len);
    const std::span<int64_t> rows = room.first(layout_.rows * len);
    for (uint32_t row = 0; row < layout_.rows; ++row) {
      kernels::philox_words(layout_.hash_of(row), first + at, len, words.data());
      const int64_t* const cells = integers_.data() + row * cols;
      int64_t* const said = rows.data() + row * len;
      for (size_t i = 0; i < len; ++i) {
        const int64_t cell = cells[kernels::sketch_bucket(words[i], static_cast<uint32_t>(cols))];
        const int64_t minus =
            -static_cast<int64_t>(words[i] >> 31);  // all bits, or none: a branch would be one of chance
        said[i] = (cell ^ minus) - minus;
      }
    }
    // A row's numbers are read before they are replaced by the medians.
    kernels::sketch_medians(rows.data(), len, layout_.rows, len, rows.data());
    for (size_t i = 0; i < len; ++i) out[at + i] = static_cast<float>(rows[i]) * unit;
  }
}

void Table::estimate(uint64_t first, std::span<float> out) const {
  if (out.empty()) return;
  if (layout_.type == CellType::f32) return estimate_floats(first, out);
  estimate_integers(first, out);
}

double Table::squares() const {
  if (layout_.cols == 0) return 0;
  std::vector<double> sums(layout_.rows);
  const double unit = unit_of(layout_.exponent);
  const auto cols = static_cast<size_t>(layout_.cols);
  for (size_t row = 0; row < sums.size(); ++row) {
    for (size_t i = row * cols; i < (row + 1) * cols; ++i) {
      const double cell =
          layout_.type == CellType::f32 ? static_cast<double>(floats_[i]) : static_cast<double>(integers_[i]) * unit;
      sums[row] += cell * cell;
    }
  }
  const auto middle = sums.begin() + layout_.rows / 2;
  std::nth_element(sums.begin(), middle, sums.end());
  return *middle;
}

TableSum::TableSum(const SketchLayout& layout) : layout_(layout) {
  check_size(layout);
  if (layout.type == CellType::f32) {
    sums_.resize(static_cast<size_t>(layout.cells()));
  } else {
    wholes_.resize(static_cast<size_t>(layout.cells()));
  }
}

void TableSum::add(const Table& table, double weight) {
  require_same(layout_, table.layout_);
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += weight * static_cast<double>(table.floats_[i]);
  if (layout_.type == CellType::f32) return;
  const auto times = static_cast<int64_t>(weight);
  if (static_cast<double>(times) != weight) {
    throw Error(Exit::usage, "cells that are whole numbers are added with weights that are whole numbers");
  }
  for (size_t i = 0; i < wholes_.size(); ++i) wholes_[i] += SumOfIntegers{table.integers_[i]} * times;
}

Table TableSum::total(double factor) const {
  Table out(layout_);
  if (layout_.type == CellType::f32) {
    std::vector<double> scaled(sums_);
    for (double& sum : scaled) sum *= factor;
    out.round_from(scaled);
    return out;
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < wholes_.size(); ++i) {
    if (wholes_[i] > kMost || wholes_[i] < -kMost) {
      throw Error(Exit::limit,
                  "a cell of the sum of sketches would pass 63 bits, and no cell is cut off: fewer messages, a smaller "
                  "'exp', or smaller values");
    }
    out.integers_[i] = static_cast<int64_t>(wholes_[i]);
  }
  out.scale(factor);
  return out;
}

const Table* table_of(const Decoder& decoder) {
  const Summable* const summable = decoder.summable();
  if (summable == nullptr || summable->summands().kind != Summands::tables) return nullptr;
  return &summable->table();
}

}  // namespace gradcodec
