// SPDX-License-Identifier: Apache-2.0
#include "codec/exact.h"

#include <bit>

#include "codec/scan.h"

namespace gradcodec {
namespace {

constexpr uint32_t kHighest = 256;  // values of the highest byte
constexpr size_t kPlanes = 3;       // of the others

}  // namespace

StreamShapes exact_shapes(uint64_t count) { return {{kHighest, count}, {0, kPlanes * count}}; }

void put_exact(std::span<const float> values, std::vector<Stream>& streams) {
  const size_t n = values.size();
  streams.resize(2);
  streams[0].alphabet = kHighest;
  streams[0].symbols.resize(n);
  streams[1].alphabet = 0;
  streams[1].bytes.resize(kPlanes * n);
  std::byte* const planes = streams[1].bytes.data();
  for (size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    streams[0].symbols[i] = static_cast<uint16_t>(bits >> 24);
    for (size_t plane = 0; plane < kPlanes; ++plane) planes[plane * n + i] = static_cast<std::byte>(bits >> 8 * plane);
  }
}

void take_exact(const std::vector<Stream>& streams, std::span<float> values) {
  const size_t n = values.size();
  const std::byte* const planes = streams[1].bytes.data();
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits = uint32_t{streams[0].symbols[i]} << 24;
    for (size_t plane = 0; plane < kPlanes; ++plane) {
      bits |= std::to_integer<uint32_t>(planes[plane * n + i]) << 8 * plane;
    }
    values[i] = std::bit_cast<float>(bits);
  }
  if (extent_of(values).irregular > 0) {
    throw Error(Exit::bad_input, "a value that was kept is not a number, infinite, or above 2^126");
  }
}

}  // namespace gradcodec
