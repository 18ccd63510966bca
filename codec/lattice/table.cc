// SPDX-License-Identifier: Apache-2.0
#include "codec/lattice/table.h"

#include <algorithm>

namespace gradcodec::lattice {
namespace {

template <typename Lattice>
bool is_point(const Point<Lattice::kDimension>& twice) {
  int32_t sum = 0;
  bool same = true, even = true;
  for (const int32_t t : twice) {
    sum += t;
    same &= (t & 1) == (twice[0] & 1);
    even &= (t & 1) == 0;
  }
  return (Lattice::kHasCosets ? same : even) && (!Lattice::kHasEvenSums || sum % 4 == 0);
}

// Calls visit(point) for the points of the table whose first `fixed` coordinates are those of `twice`. `left`: what the
// others may add to the norm.
template <typename Lattice, typename Visit>
void visit_points(Point<Lattice::kDimension>& twice, size_t fixed, int64_t left, Visit visit) {
  if (fixed == Lattice::kDimension) {
    if (is_point<Lattice>(twice)) visit(twice);
    return;
  }
  Point<Lattice::kDimension> unit = {};
  unit[fixed] = 1;
  const int64_t weight = Lattice::norm4(unit);
  int32_t most = 0;
  while (weight * (most + 1) * (most + 1) <= left) ++most;
  for (int32_t t = -most; t <= most; ++t) {
    if (fixed > 0 && ((t ^ twice[0]) & 1) != 0) continue;  // whole or half, like the first
    twice[fixed] = t;
    visit_points<Lattice>(twice, fixed + 1, left - weight * t * t, visit);
  }
}

}  // namespace

template <typename Lattice>
Table<Lattice>::Table() : keys_(kSlots, kEmpty), numbers_(kSlots, 0) {
  struct Entry {
    int64_t key;
    std::array<int16_t, L> twice;
    bool operator<(const Entry& other) const { return key != other.key ? key < other.key : twice < other.twice; }
  };
  std::vector<Entry> entries;
  Point<L> twice = {};
  visit_points<Lattice>(twice, 0, Lattice::kTableNorm4, [&](const Point<L>& p) {
    Entry entry{Lattice::table_key(p), {}};
    for (size_t i = 0; i < L; ++i) entry.twice[i] = static_cast<int16_t>(p[i]);
    entries.push_back(entry);
  });
  std::sort(entries.begin(), entries.end());
  points_.reserve(entries.size());
  for (const Entry& entry : entries) points_.push_back(entry.twice);
  for (size_t i = 0; i < points_.size(); ++i) {
    const auto number = static_cast<uint32_t>(i == 0 ? kNumberOfZero : i + 1);
    const uint64_t key = key_of(point(number));
    size_t slot = slot_of(key);
    while (keys_[slot] != kEmpty) slot = (slot + 1) % kSlots;
    keys_[slot] = key;
    numbers_[slot] = static_cast<uint16_t>(number);
  }
}

template <typename Lattice>
const Table<Lattice>& Table<Lattice>::get() {
  static const Table table;
  return table;
}

template class Table<A2>;
template class Table<D4>;
template class Table<E8>;

}  // namespace gradcodec::lattice
