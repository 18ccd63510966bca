// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/entropy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codec/checks/sum.h"

namespace gradcodec {

void SymbolCounts::add(uint32_t alphabet, std::span<const uint16_t> symbols) {
  if (counts_.size() < alphabet) counts_.resize(alphabet);
  for (const uint16_t symbol : symbols) ++counts_[symbol];
}

void SymbolCounts::add(ByteView bytes) {
  if (counts_.size() < 256) counts_.resize(256);
  for (const std::byte byte : bytes) ++counts_[static_cast<size_t>(byte)];
}

void SymbolCounts::add(const Stream& stream) {
  if (stream.alphabet == 0) {
    add(stream.bytes);
  } else {
    add(stream.alphabet, stream.symbols);
  }
}

void SymbolCounts::merge(const SymbolCounts& other) {
  if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
  for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
}

double SymbolCounts::bits() const {
  const auto total = static_cast<double>(symbols());
  Sum sum;
  for (const uint64_t count : counts_) {
    const auto n = static_cast<double>(count);
    if (count > 0) sum.add(n * std::log2(total / n));
  }
  return sum.value();
}

uint64_t SymbolCounts::symbols() const { return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }

}  // namespace gradcodec
