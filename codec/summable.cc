// SPDX-License-Identifier: Apache-2.0
#include "codec/summable.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gradcodec {
namespace {

constexpr double kMostDecoded = 0x1p127;  // of a sum: what float32 holds
constexpr double kMostBelow = 0x1p107;    // of one that another scheme decodes further
constexpr uint32_t kByte = 256;
constexpr size_t kSymbolPlanes = 2;  // the highest bytes of a float64: sign, exponent, four bits

}  // namespace

void Summable::add_symbols(const Code&, int32_t, std::span<int32_t>) const {
  throw Error(Exit::bug, "a scheme without symbols that add up");
}

void Summable::add_values(const Code&, double, std::span<double>) const {
  throw Error(Exit::bug, "a scheme without values that add up");
}

const Table& Summable::table() const { throw Error(Exit::bug, "a scheme without a table that adds up"); }

std::unique_ptr<Decoder> Summable::without_table() const {
  throw Error(Exit::bug, "a scheme without a table to do without");
}

bool holds_sums(const Summands& summands, bool below) {
  const double most = static_cast<double>(summands.max_level) * static_cast<double>(summands.steps.front());
  return most * summands.factor <= (below ? kMostBelow : kMostDecoded);
}

bool holds_sum(double decoded) { return std::fabs(decoded) <= kMostDecoded; }

Bytes stored_sum(const Summands& summands) {
  Bytes out;
  put_varint(out, summands.weight);
  put(out, summands.factor);
  if (summands.kind != Summands::symbols) return out;
  put_varint(out, summands.max_level);
  put(out, static_cast<uint8_t>(summands.steps.size()));
  for (const float step : summands.steps) put(out, step);
  return out;
}

void put_sums(std::span<const int32_t> sums, const Summands& summands, std::vector<Stream>& streams) {
  const size_t scales = summands.steps.size(), n = sums.size() / scales;
  const auto zero = static_cast<int32_t>(summands.max_level);
  streams.resize(scales);
  for (size_t scale = 0; scale < scales; ++scale) {
    Stream& stream = streams[scale];
    stream.alphabet = 2 * summands.max_level + 1;
    stream.bytes.clear();
    stream.symbols.resize(n);
    const std::span<const int32_t> of = sums.subspan(scale * n, n);
    std::transform(of.begin(), of.end(), stream.symbols.begin(),
                   [zero](int32_t sum) { return static_cast<uint16_t>(sum + zero); });
  }
}

void put_sums(std::span<const double> sums, std::vector<Stream>& streams) {
  const size_t n = sums.size();
  streams.resize(kSymbolPlanes + 1);
  for (size_t i = 0; i < kSymbolPlanes; ++i) {
    streams[i].alphabet = kByte;
    streams[i].bytes.clear();
    streams[i].symbols.resize(n);
  }
  Bytes& planes = streams[kSymbolPlanes].bytes;
  streams[kSymbolPlanes].alphabet = 0;
  streams[kSymbolPlanes].symbols.clear();
  planes.resize(kSumPlanes * n);
  for (size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint64_t>(sums[i]);
    streams[0].symbols[i] = static_cast<uint16_t>(bits >> 56);
    streams[1].symbols[i] = static_cast<uint16_t>(bits >> 48 & 0xFF);
    for (size_t plane = 0; plane < kSumPlanes; ++plane)
      planes[plane * n + i] = static_cast<std::byte>(bits >> 8 * plane);
  }
}

}  // namespace gradcodec
