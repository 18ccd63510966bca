// Codes that can be added without being decoded: integers that are multiples of one step, values at the same places, or
// the tables of sketches. spec/aggregate.md says what they add up to; codec/code_sum.h adds them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "codec/scheme.h"

namespace gradcodec {

class Table;  // codec/sketch.h

// What the codes of a tensor are multiples of.
struct Summands {
  enum Kind : uint8_t { symbols, values, tables } kind = symbols;
  std::vector<float> steps = {};  // of symbols: of each scale, from coarse to fine; all 0 where all values are
  uint32_t max_level = 0;         // of symbols: they are from -max_level to max_level at every scale
  bool below = false;             // of values: they belong to a scheme that would stand below and is not there
  uint64_t weight = 1;            // of how many messages they are the sum already
  double factor = 1;              // what the sum is multiplied by when it is decoded
};

// What the scheme `sum` stores (spec/schemes/sum.md).
inline constexpr std::string_view kSumScheme = "sum";
inline constexpr std::string_view kTableSums = "sum:of=tables/";  // before the text of what was added
inline constexpr uint64_t kMaxSummed = uint64_t{1} << 53;         // messages in a sum
inline constexpr uint32_t kMaxSum = 32767;  // largest magnitude of a sum of symbols: 65,535 of them
inline constexpr size_t kSumPlanes = 6;     // bytes of a float64 below the two highest

// Whether float32 holds every sum of symbols that there can be. `below`: another scheme stands over it and decodes it
// further.
bool holds_sums(const Summands& summands, bool below);
bool holds_sum(double decoded);  // one that is decoded

// The parameters that a tensor's sum stores. Of `symbols`: 1 to 8 steps, max_level at most kMaxSum. Of `tables`: those
// that stand before the table.
Bytes stored_sum(const Summands& summands);

// The streams of a chunk's sum, as Summable adds them up.
void put_sums(std::span<const int32_t> sums, const Summands& summands, std::vector<Stream>& streams);
void put_sums(std::span<const double> sums, std::vector<Stream>& streams);

// What Decoder::summable gives. What the kind says is there, and nothing else.
class Summable {
 public:
  virtual ~Summable() = default;
  virtual Summands summands() const = 0;

  // Adds `weight` times the symbols of a chunk of n values to `sums`, which holds n for each scale, one scale after the
  // other. `code` has been decoded without an error, and no sum passes int32_t: the caller has seen to it.
  virtual void add_symbols(const Code& code, int32_t weight, std::span<int32_t> sums) const;

  // Adds `weight` times the values of a chunk to as many `sums`. `code` has been decoded likewise.
  virtual void add_values(const Code& code, double weight, std::span<double> sums) const;

  // The table, which is all of the tensor but for exceptions; it lives as long as the decoder.
  virtual const Table& table() const;

  // The decoder without its table, which may be large while a sum has many messages: it checks chunks as that one does,
  // and decodes them to 0 but for exceptions.
  virtual std::unique_ptr<Decoder> without_table() const;
};

}  // namespace gradcodec
