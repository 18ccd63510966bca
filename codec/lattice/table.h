// The lattice points near 0, each with a number: one symbol stands for a whole vector.
//
// The table holds every point of squared norm at most kTableNorm4 / 4, in the order of the lattice's table_key, of
// equals the one that is lexicographically smaller. It follows from the kind alone and is stored nowhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "codec/lattice/lattices.h"

namespace gradcodec::lattice {

inline constexpr uint32_t kNumberOfZero = 0;
inline constexpr uint32_t kEscape = 1;  // no point's number: the point has its coordinates elsewhere

template <typename Lattice>
class Table {
 public:
  static constexpr size_t L = Lattice::kDimension;

  static const Table& get();  // made by the first who asks, in a few hundredths of a second

  uint32_t numbers() const { return static_cast<uint32_t>(points_.size()) + 1; }  // from 0, kEscape among them

  // The number of a point, or kEscape if it is not in the table. Of any coordinates.
  uint32_t number_of(const Point<L>& twice) const {
    if (Lattice::norm4(twice) > Lattice::kTableNorm4) return kEscape;
    const uint64_t key = key_of(twice);
    size_t slot = slot_of(key);
    while (keys_[slot] != key) {
      if (keys_[slot] == kEmpty) return kEscape;
      slot = (slot + 1) % kSlots;
    }
    return numbers_[slot];
  }

  // `number` below numbers(), and not kEscape.
  Point<L> point(uint32_t number) const {
    const auto& stored = points_[number == kNumberOfZero ? 0 : number - 1];
    Point<L> twice;
    for (size_t i = 0; i < L; ++i) twice[i] = stored[i];
    return twice;
  }

 private:
  static constexpr int kSlotBits = 17;
  static constexpr size_t kSlots = size_t{1} << kSlotBits;
  static constexpr uint64_t kEmpty = std::numeric_limits<uint64_t>::max();  // no key: coordinates are below their room

  Table();

  static uint64_t key_of(const Point<L>& twice) {
    constexpr int kBits = L == 8 ? 8 : 16;
    uint64_t key = 0;
    for (size_t i = 0; i < L; ++i) key = key << kBits | static_cast<uint32_t>(twice[i] + (1 << (kBits - 1)));
    return key;
  }
  static size_t slot_of(uint64_t key) { return static_cast<size_t>(key * 0x9E3779B97F4A7C15 >> (64 - kSlotBits)); }

  std::vector<std::array<int16_t, L>> points_;
  std::vector<uint64_t> keys_;
  std::vector<uint16_t> numbers_;
};

}  // namespace gradcodec::lattice
