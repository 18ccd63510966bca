// SPDX-License-Identifier: Apache-2.0
#include "codec/indices.h"

#include <algorithm>
#include <bit>
#include <string>

#include "codec/room.h"

namespace gradcodec {
namespace {

constexpr uint32_t kRiceBits = 5;  // of the parameter, first in the code
constexpr uint32_t kMaxRice = 31;

// Appends bits to bytes, the first in the lowest bit of a byte.
class BitWriter {
 public:
  // `bits`: all that will be written.
  BitWriter(Bytes& out, uint64_t bits) : out_(out), end_(out.size() + (bits + 7) / 8) {
    to_ = out.size();
    out_.resize(end_ + sizeof(uint64_t));  // so that eight bytes can be stored at once
  }

  // At most 56 bits, those above being 0.
  void put(uint64_t bits, uint32_t length) {
    last_ |= bits << held_;
    store_little(last_, out_.data() + to_);
    held_ += length;
    to_ += held_ / 8;
    last_ >>= held_ / 8 * 8;  // at most 56: 7 bits are held at most
    held_ %= 8;
  }

  // Any number of zeros, a one, and `length` bits, at most 31.
  void put_after_zeros(uint64_t zeros, uint64_t bits, uint32_t length) {
    for (; zeros > 24; zeros -= 24) put(0, 24);
    put((2 * bits + 1) << zeros, static_cast<uint32_t>(zeros) + 1 + length);
  }

  void finish() { out_.resize(end_); }

 private:
  Bytes& out_;
  size_t end_, to_;    // of the bytes; of the next byte that is not full
  uint64_t last_ = 0;  // bits that fill no byte yet
  uint32_t held_ = 0;
};

// Reads the bits of what is left of `in`; finish() takes the bytes that they began.
class BitSource {
 public:
  explicit BitSource(ByteReader& in) : in_(in), bytes_(in.rest()) {}

  uint64_t get(uint32_t length) {
    const uint64_t bits = window() & ((uint64_t{1} << length) - 1);
    skip(length);
    return bits;
  }

  // Zeros before the next one, which is taken too.
  uint64_t get_unary() {
    uint64_t zeros = 0;
    uint64_t bits = window();
    while (bits == 0) {
      skip(kWindow);
      zeros += kWindow;
      bits = window();
    }
    const auto more = static_cast<uint64_t>(std::countr_zero(bits));
    skip(more + 1);
    return zeros + more;
  }

  void finish() {
    if (at_ % 8 != 0 && window() << (56 + at_ % 8) != 0) in_.fail("has bits after its last index");
    in_.get_bytes((at_ + 7) / 8);
  }

 private:
  static constexpr uint32_t kWindow = 57;  // bits that are there whatever the place in a byte

  // The next bits, the first in the lowest; beyond the end there are zeros.
  uint64_t window() const {
    const uint64_t byte = at_ / 8;
    uint64_t bits = 0;
    if (byte + sizeof bits <= bytes_.size()) {
      std::memcpy(&bits, bytes_.data() + byte, sizeof bits);
    } else if (byte < bytes_.size()) {
      std::memcpy(&bits, bytes_.data() + byte, bytes_.size() - byte);
    }
    return (little(bits) >> (at_ & 7)) & ((uint64_t{1} << kWindow) - 1);
  }

  void skip(uint64_t bits) {
    at_ += bits;
    if (at_ > bytes_.size() * 8) in_.fail("ends within a list of indices");
  }

  ByteReader& in_;
  ByteView bytes_;
  uint64_t at_ = 0;  // bits read
};

// Which side of the set is written, and how many that are.
struct Side {
  Side(uint64_t count, uint64_t n) : missing(count > n / 2), written(missing ? n - count : count) {}
  bool missing;
  uint64_t written;
};

// The places below n that are not in `indices`, into `others`, which has room for one more: each
// place is written before it is known to be one, as a branch would be one of chance where half are missing.
void complement(std::span<const uint32_t> indices, uint64_t n, uint32_t* others) {
  size_t next = 0;
  const size_t count = indices.size();
  uint64_t place = 0;
  for (; next < count; ++place) {
    const bool present = indices[next] == place;
    *others = static_cast<uint32_t>(place);
    others += present ? 0 : 1;
    next += present ? 1 : 0;
  }
  for (; place < n; ++place) *others++ = static_cast<uint32_t>(place);
}

// Calls visit(gap) for each index: how many places lie between it and the one before.
template <typename Visit>
void for_each_gap(std::span<const uint32_t> indices, Visit visit) {
  uint64_t next = 0;  // after the last index
  for (const uint32_t index : indices) {
    visit(index - next);
    next = uint64_t{index} + 1;
  }
}

// Bits of all codes at the parameters around one. As a function of r the size has one valley: from r to r + 1 it grows
// by count - sum of ceil(floor(gap / 2^r) / 2), which rises with r. So the best r is found, and known, by its
// neighbours.
struct Valley {
  explicit Valley(uint32_t parameter) : r(parameter) {}

  void add(uint64_t gap) {
    ++count;
    below += r == 0 ? 0 : gap >> (r - 1);
    here += gap >> r;
    above += gap >> (r + 1);
  }
  // The smaller parameter is taken of two that are equal.
  bool is_lower_better() const { return r > 0 && below <= here + count; }
  bool is_higher_better() const { return r < kMaxRice && above + count < here; }

  uint32_t r;
  uint64_t count = 0, below = 0, here = 0, above = 0;
};

Valley best_parameter(std::span<const uint32_t> indices, uint64_t n) {
  const uint64_t mean = (n - indices.size()) / indices.size();
  uint32_t r = std::min(static_cast<uint32_t>(std::bit_width(mean / 2)), kMaxRice);
  while (true) {
    Valley valley(r);
    for_each_gap(indices, [&](uint64_t gap) { valley.add(gap); });
    if (valley.is_lower_better()) {
      --r;
    } else if (valley.is_higher_better()) {
      ++r;
    } else {
      return valley;
    }
  }
}

void put_gaps(Bytes& out, std::span<const uint32_t> indices, uint64_t n) {
  const Valley valley = best_parameter(indices, n);
  const uint32_t r = valley.r;
  BitWriter writer(out, kRiceBits + valley.here + valley.count * (r + 1));
  writer.put(r, kRiceBits);
  for_each_gap(indices, [&](uint64_t gap) { writer.put_after_zeros(gap >> r, gap & ((uint64_t{1} << r) - 1), r); });
  writer.finish();
}

void take_gaps(ByteReader& in, uint64_t n, std::span<uint32_t> indices) {
  BitSource source(in);
  Valley valley(static_cast<uint32_t>(source.get(kRiceBits)));
  const uint32_t r = valley.r;
  uint64_t next = 0;  // after the last index
  for (uint32_t& index : indices) {
    const uint64_t high = source.get_unary();
    if (high > n >> r) in.fail("has an index beyond its range");
    const uint64_t gap = high << r | source.get(r);
    if (gap >= n - next) in.fail("has an index beyond its range");
    valley.add(gap);
    index = static_cast<uint32_t>(next + gap);
    next += gap + 1;
  }
  if (valley.is_lower_better() || valley.is_higher_better()) in.fail("has indices in a form that is not the shortest");
  source.finish();
}

}  // namespace

void put_indices(Bytes& out, std::span<const uint32_t> indices, uint64_t n) {
  const Side side(indices.size(), n);
  if (side.written == 0) return;
  if (!side.missing) return put_gaps(out, indices, n);
  Room<uint32_t> room;
  const std::span<uint32_t> missing = room.first(side.written + 1);  // one more: see complement
  complement(indices, n, missing.data());
  put_gaps(out, missing.first(static_cast<size_t>(side.written)), n);
}

void take_indices(ByteReader& in, uint64_t count, uint64_t n, std::vector<uint32_t>& indices) {
  const Side side(count, n);
  // Each index that is written takes a bit at least.
  if (side.written > uint64_t{in.left()} * 8) in.fail("ends within a list of indices");
  indices.resize(static_cast<size_t>(count) + 1);
  Room<uint32_t> room;
  const std::span<uint32_t> written =
      side.missing ? room.first(side.written) : std::span(indices).first(static_cast<size_t>(count));
  if (side.written > 0) take_gaps(in, n, written);
  if (side.missing) complement(written, n, indices.data());
  indices.resize(static_cast<size_t>(count));
}

}  // namespace gradcodec
