// SPDX-License-Identifier: Apache-2.0
#include "codec/indices.h"

#include <algorithm>
#include <bit>
#include <string>

namespace gradcodec {
namespace {

constexpr uint32_t kRiceBits = 5;  // of the parameter, first in the code
constexpr uint32_t kMaxRice = 31;

// Appends bits to bytes, the first in the lowest bit of a byte.
class BitWriter {
 public:
  explicit BitWriter(Bytes& out) : out_(out) {}

  // At most 32 bits, those above being 0.
  void put(uint64_t bits, uint32_t length) {
    last_ |= bits << held_;
    held_ += length;
    while (held_ >= 8) flush_byte();
  }

  // Any number of zeros, then a one.
  void put_unary(uint64_t zeros) {
    for (; zeros >= 32; zeros -= 32) put(0, 32);
    put(uint64_t{1} << zeros, static_cast<uint32_t>(zeros) + 1);
  }

  void finish() {
    if (held_ > 0) flush_byte();
  }

 private:
  void flush_byte() {
    out_.push_back(static_cast<std::byte>(last_));
    last_ >>= 8;
    held_ -= std::min(held_, 8U);
  }

  Bytes& out_;
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
    return (bits >> (at_ & 7)) & ((uint64_t{1} << kWindow) - 1);
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

// Calls visit(gap) for each index that is written: how many places lie between it and the one before.
template <typename Visit>
void for_each_gap(std::span<const uint32_t> indices, uint64_t n, const Side& side, Visit visit) {
  uint64_t next = 0;  // after the last index
  if (!side.missing) {
    for (const uint32_t index : indices) {
      visit(index - next);
      next = uint64_t{index} + 1;
    }
    return;
  }
  uint64_t present = 0;  // since the last that is missing
  const auto visit_missing = [&](uint64_t count) {
    for (; count > 0; --count) {
      visit(present);
      present = 0;
    }
  };
  for (const uint32_t index : indices) {
    visit_missing(index - next);
    ++present;
    next = uint64_t{index} + 1;
  }
  visit_missing(n - next);
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

Valley best_parameter(std::span<const uint32_t> indices, uint64_t n, const Side& side) {
  const uint64_t mean = (n - side.written) / side.written;
  uint32_t r = std::min(static_cast<uint32_t>(std::bit_width(mean / 2)), kMaxRice);
  while (true) {
    Valley valley(r);
    for_each_gap(indices, n, side, [&](uint64_t gap) { valley.add(gap); });
    if (valley.is_lower_better()) {
      --r;
    } else if (valley.is_higher_better()) {
      ++r;
    } else {
      return valley;
    }
  }
}

}  // namespace

void put_indices(Bytes& out, std::span<const uint32_t> indices, uint64_t n) {
  const Side side(indices.size(), n);
  if (side.written == 0) return;
  const Valley valley = best_parameter(indices, n, side);
  const uint32_t r = valley.r;
  out.reserve(out.size() + (kRiceBits + valley.here + valley.count * (r + 1) + 7) / 8);
  BitWriter writer(out);
  writer.put(r, kRiceBits);
  for_each_gap(indices, n, side, [&](uint64_t gap) {
    writer.put_unary(gap >> r);
    writer.put(gap & ((uint64_t{1} << r) - 1), r);
  });
  writer.finish();
}

void take_indices(ByteReader& in, uint64_t count, uint64_t n, std::vector<uint32_t>& indices) {
  const Side side(count, n);
  // Each index that is written takes a bit at least.
  if (side.written > uint64_t{in.left()} * 8) in.fail("ends within a list of indices");
  indices.resize(static_cast<size_t>(count));
  uint32_t* to = indices.data();
  uint64_t next = 0;  // after the last that was written
  const auto put_run = [&](uint64_t end) {
    for (; next < end; ++next) *to++ = static_cast<uint32_t>(next);
  };
  if (side.written > 0) {
    BitSource source(in);
    Valley valley(static_cast<uint32_t>(source.get(kRiceBits)));
    const uint32_t r = valley.r;
    for (uint64_t i = 0; i < side.written; ++i) {
      const uint64_t high = source.get_unary();
      if (high > n >> r) in.fail("has an index beyond its range");
      const uint64_t gap = high << r | source.get(r);
      if (gap >= n - next) in.fail("has an index beyond its range");
      valley.add(gap);
      const uint64_t index = next + gap;
      if (side.missing) {
        put_run(index);
      } else {
        *to++ = static_cast<uint32_t>(index);
      }
      next = index + 1;
    }
    if (valley.is_lower_better() || valley.is_higher_better())
      in.fail("has indices in a form that is not the shortest");
    source.finish();
  }
  if (side.missing) put_run(n);
}

}  // namespace gradcodec
