// What a message takes, how near that is to the entropy of its symbols, and how near its values are to a dump's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codec/checks/reconstruction.h"
#include "codec/checks/side_fit.h"
#include "format/dumps/source.h"
#include "format/stored_message.h"

namespace gradcodec {

// What of a tensor was compared with a dump.
struct Comparison {
  // Of elements as decompress gives them, in the tensor's own type; absent for types that are not floats. `max_part` is
  // the tensor's number in the file.
  std::optional<Reconstruction> values;
  uint64_t unequal = 0;  // elements whose bytes differ; of floats of two types, whose values do
  // Chunks with a value that the tensor's type cannot hold, so that decompress refuses them: their float32 values were
  // compared.
  uint64_t beyond_type = 0;
};

// Of one tensor, or of the whole message.
struct TensorStats {
  std::string name;                        // empty for the whole
  uint64_t values = 0, element_bytes = 0;  // elements, and their bytes in memory
  uint64_t frames = 0, bytes = 0;          // of the tensor's frames, heads and checks included; the whole: of the file
  uint64_t exceptions = 0;                 // elements kept beside the symbols
  uint64_t symbols = 0;                    // of all streams; of `raw`, the bytes
  uint64_t symbol_bytes = 0;               // what the coder (or the form) made of them, lengths of streams included

  // What an ideal coder takes that codes each symbol by itself, with the frequencies of the tensor's stream as its
  // table and the table free of charge. A coder that adapts to chunks or to neighbours may take less.
  double ideal_bits = 0;

  std::optional<Comparison> comparison;  // with the dump, if it has the tensor
  std::optional<SideFit> fit;            // of its side information to the dump's values, if it takes some

  // In bits; absent where the divisor is 0.
  std::optional<double> bits_per_value() const;      // of `bytes`
  std::optional<double> entropy_per_symbol() const;  // ideal bits
  std::optional<double> entropy_per_value() const;   // likewise
  double excess_bits() const;                        // of the symbols' bytes over ideal_bits; may be negative
  std::optional<double> excess_percent() const;      // of ideal_bits
};

struct MessageStats {
  std::vector<TensorStats> tensors;  // in the file's order
  TensorStats whole;
  Accounts parts;
  std::vector<std::string> only_in_file, only_in_dump;  // names of tensors that were not compared
};

// `dump`: what to compare with, tensors matched by name; null for nothing. The result does not depend on `threads`.
// Throws what match_tensors, StoredMessage::load and TensorData::read throw.
MessageStats message_stats(const StoredMessage& message, Source* dump, unsigned threads, uint64_t memory,
                           Progress& progress);

}  // namespace gradcodec
