// SPDX-License-Identifier: Apache-2.0
#include "codec/lattice/index.h"

#include <algorithm>
#include <cstdlib>

#include "codec/lattice/table.h"

namespace gradcodec::lattice {
namespace {

constexpr uint32_t kMaxLevel = 32767;

// Numbers around 0 by turns, the middle of the alphabet: 0, 1, -1, 2, -2.. for 0, 1, 2, 3, 4.. Coders model distances
// from the middle.
int32_t by_turns(uint32_t number) {
  const auto half = static_cast<int32_t>((number + 1) / 2);
  return number % 2 == 1 ? half : -half;
}

uint32_t number_by_turns(int32_t q) { return q > 0 ? 2 * static_cast<uint32_t>(q) - 1 : 2 * static_cast<uint32_t>(-q); }

// Coordinates of an escaped vector.
template <typename Lattice>
struct Coordinates {
  static constexpr size_t L = Lattice::kDimension;
  int32_t coset = 0;
  std::array<int32_t, L> q = {};  // the first as it is stored

  static Coordinates of(const int32_t* twice) {
    Coordinates out;
    out.coset = Lattice::kHasCosets ? twice[0] & 1 : 0;
    int32_t sum = 0;
    for (size_t i = 0; i < L; ++i) {
      out.q[i] = (twice[i] - out.coset) / 2;  // exact
      sum += i == 0 ? 0 : out.q[i];
    }
    if (Lattice::kHasEvenSums) out.q[0] = (out.q[0] - (sum & 1)) / 2;  // exact
    return out;
  }

  Point<L> point() const {
    int32_t sum = 0;
    for (size_t i = 1; i < L; ++i) sum += q[i];
    Point<L> twice;
    for (size_t i = 0; i < L; ++i) twice[i] = 2 * q[i] + coset;
    if (Lattice::kHasEvenSums) twice[0] = 2 * (2 * q[0] + (sum & 1)) + coset;
    return twice;
  }
};

// Streams by what is in them.
template <typename Lattice, typename Streams>
struct Parts {
  Streams& streams;
  bool has_joint;
  auto& joint() const { return streams[0].symbols; }
  auto& coset() const { return streams[has_joint].symbols; }
  auto& others() const { return streams[has_joint + size_t{Lattice::kHasCosets}].symbols; }
  auto& first() const { return streams[has_joint + size_t{Lattice::kHasCosets} + 1].symbols; }
};

// Whether so many escapes make it cheaper to write every vector by its coordinates. Measured: spec/schemes/lattice.md.
template <typename Lattice>
bool prefers_coordinates(uint64_t escapes, uint64_t vectors) {
  return Lattice::kDimension == 8 ? 8 * escapes > 5 * vectors : 2 * escapes > vectors;
}

uint16_t symbol_of(int32_t q, uint32_t level) { return static_cast<uint16_t>(q + static_cast<int32_t>(level)); }
int32_t q_of(uint16_t symbol, uint32_t level) { return symbol - static_cast<int32_t>(level); }

// The numbers of vectors; the shape but for the levels of coordinates.
template <typename Lattice>
IndexShape find_numbers(std::span<const int32_t> points, std::span<uint16_t> numbers) {
  constexpr size_t L = Lattice::kDimension;
  const Table<Lattice>& table = Table<Lattice>::get();
  uint32_t largest = 0;
  uint64_t escapes = 0;
  for (size_t vector = 0; vector < numbers.size(); ++vector) {
    Point<L> twice;
    std::copy_n(points.data() + vector * L, L, twice.begin());
    const uint32_t number = table.number_of(twice);
    numbers[vector] = static_cast<uint16_t>(number);
    largest = std::max(largest, number);
    escapes += number == kEscape ? 1 : 0;
  }
  if (prefers_coordinates<Lattice>(escapes, numbers.size())) return {0, numbers.size(), 0, 0};
  return {(largest + 1) / 2, escapes, 0, 0};
}

// Calls visit(how many escaped before, coordinates) for the vectors that escape.
template <typename Lattice, typename Visit>
void for_each_escape(std::span<const int32_t> points, std::span<const uint16_t> numbers, const IndexShape& shape,
                     Visit visit) {
  if (shape.escapes == 0) return;
  const bool all = !shape.has_joint(numbers.size());
  size_t escape = 0;
  for (size_t vector = 0; vector < numbers.size(); ++vector) {
    if (!all && numbers[vector] != kEscape) continue;
    visit(escape++, Coordinates<Lattice>::of(points.data() + vector * Lattice::kDimension));
  }
}

void make_room(const StreamShapes& shapes, std::vector<Stream>& streams) {
  streams.resize(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    streams[i].alphabet = shapes[i].alphabet;
    streams[i].symbols.resize(static_cast<size_t>(shapes[i].count));
  }
}

template <typename Lattice>
IndexShape to_streams_of(Kind kind, std::span<const int32_t> points, std::vector<Stream>& streams) {
  constexpr size_t L = Lattice::kDimension;
  thread_local std::vector<uint16_t> numbers;
  numbers.resize(points.size() / L);
  IndexShape shape = find_numbers<Lattice>(points, numbers);
  for_each_escape<Lattice>(points, numbers, shape, [&](size_t, const Coordinates<Lattice>& at) {
    const auto raise = [](uint32_t& level, int32_t q) { level = std::max(level, static_cast<uint32_t>(std::abs(q))); };
    for (size_t i = 1; i < L; ++i) raise(shape.others_level, at.q[i]);
    raise(shape.first_level, at.q[0]);
  });
  make_room(shape.streams(kind, numbers.size()), streams);
  const Parts<Lattice, std::vector<Stream>> parts{streams, shape.has_joint(numbers.size())};
  for (size_t vector = 0; parts.has_joint && vector < numbers.size(); ++vector) {
    parts.joint()[vector] = symbol_of(by_turns(numbers[vector]), shape.joint_level);
  }
  for_each_escape<Lattice>(points, numbers, shape, [&](size_t escape, const Coordinates<Lattice>& at) {
    if (Lattice::kHasCosets) parts.coset()[escape] = static_cast<uint16_t>(at.coset);
    for (size_t i = 1; i < L; ++i) parts.others()[escape * (L - 1) + i - 1] = symbol_of(at.q[i], shape.others_level);
    parts.first()[escape] = symbol_of(at.q[0], shape.first_level);
  });
  return shape;
}

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::bad_input, "a chunk " + text); }

template <typename Lattice>
Point<Lattice::kDimension> take_escape(const Parts<Lattice, const std::vector<Stream>>& parts, const IndexShape& shape,
                                       size_t escape) {
  constexpr size_t L = Lattice::kDimension;
  Coordinates<Lattice> at;
  if (Lattice::kHasCosets) at.coset = parts.coset()[escape];
  for (size_t i = 1; i < L; ++i) at.q[i] = q_of(parts.others()[escape * (L - 1) + i - 1], shape.others_level);
  at.q[0] = q_of(parts.first()[escape], shape.first_level);
  return at.point();
}

template <typename Lattice>
void from_streams_of(const IndexShape& shape, const std::vector<Stream>& streams, std::span<int32_t> points) {
  constexpr size_t L = Lattice::kDimension;
  const Table<Lattice>& table = Table<Lattice>::get();
  const size_t vectors = points.size() / L;
  const bool all = !shape.has_joint(vectors);
  const Parts<Lattice, const std::vector<Stream>> parts{streams, !all};
  size_t escapes = 0;
  for (size_t vector = 0; vector < vectors; ++vector) {
    const uint32_t number = all ? kEscape : number_by_turns(q_of(parts.joint()[vector], shape.joint_level));
    if (number >= table.numbers()) fail("has a symbol of no lattice point");
    if (number == kEscape && escapes == shape.escapes) fail("has more escapes than it says");
    const Point<L> twice = number == kEscape ? take_escape<Lattice>(parts, shape, escapes++) : table.point(number);
    if (number == kEscape && !all && table.number_of(twice) != kEscape)
      fail("has the coordinates of a point in the table");
    std::copy(twice.begin(), twice.end(), points.data() + vector * L);
  }
  if (escapes != shape.escapes) fail("has fewer escapes than it says");
}

uint32_t take_level(ByteReader& in) {
  const uint64_t level = in.get_varint();
  if (level > kMaxLevel) in.fail("holds the level " + std::to_string(level) + ", more than 32767");
  return static_cast<uint32_t>(level);
}

}  // namespace

void IndexShape::put(Bytes& out) const {
  put_varint(out, escapes);
  put_varint(out, joint_level);
  if (escapes == 0) return;
  put_varint(out, others_level);
  put_varint(out, first_level);
}

IndexShape IndexShape::take(ByteReader& in, uint64_t vectors) {
  IndexShape shape;
  shape.escapes = in.get_varint();
  if (shape.escapes > vectors) in.fail("says that more vectors escape than there are");
  shape.joint_level = take_level(in);
  const bool none = shape.escapes == 0, all = !shape.has_joint(vectors);
  if ((all || vectors == 0) && shape.joint_level != 0) in.fail("has a level of joint symbols and none of them");
  if (!all && !none && shape.joint_level == 0) in.fail("has escapes and no symbol for them");
  if (none) return shape;
  shape.others_level = take_level(in);
  shape.first_level = take_level(in);
  return shape;
}

StreamShapes IndexShape::streams(Kind kind, uint64_t vectors) const {
  StreamShapes shapes = {};
  if (has_joint(vectors)) shapes.add({2 * joint_level + 1, vectors});
  if (escapes == 0) return shapes;
  if (kind != Kind::d4) shapes.add({2, escapes});
  shapes.add({2 * others_level + 1, escapes * (cell_of(kind).dimension - 1)});
  shapes.add({2 * first_level + 1, escapes});
  return shapes;
}

IndexShape to_streams(Kind kind, std::span<const int32_t> points, std::vector<Stream>& streams) {
  return with_lattice(kind, [&](auto lattice) { return to_streams_of<decltype(lattice)>(kind, points, streams); });
}

void from_streams(Kind kind, const IndexShape& shape, const std::vector<Stream>& streams, std::span<int32_t> points) {
  with_lattice(kind, [&](auto lattice) { from_streams_of<decltype(lattice)>(shape, streams, points); });
}

}  // namespace gradcodec::lattice
