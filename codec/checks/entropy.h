// What symbols are worth to an ideal coder of order 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/bytes.h"
#include "codec/coder.h"

namespace gradcodec {

// How often each symbol occurs, of one kind of stream.
class SymbolCounts {
 public:
  // Symbols below `alphabet`, which may differ from call to call.
  void add(uint32_t alphabet, std::span<const uint16_t> symbols);
  void add(ByteView bytes);        // as symbols of an alphabet of 256
  void add(const Stream& stream);  // its symbols, or its bytes
  void merge(const SymbolCounts& other);
  void clear() { counts_.assign(counts_.size(), 0); }

  // The sum over all symbols of log2(symbols / count of that symbol): what no coder falls below that codes each symbol
  // by itself, one table for all.
  double bits() const;
  uint64_t symbols() const;

 private:
  std::vector<uint64_t> counts_;
};

}  // namespace gradcodec
