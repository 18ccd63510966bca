// Is a message written as this program writes it? The format leaves a writer a few choices; where this program's follow
// from what is stored, they are made again and compared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "format/stored_message.h"

namespace gradcodec {

// One part that is written in another way.
struct Departure {
  std::string tensor;  // empty: of the file itself
  std::string place;   // "chunk 3 of 7, at byte 1234 of the file", "block 2, at byte 137 of the file"
  std::string text;    // what is there, and what this program writes
};

// The first `most` departures in the file's order; none of what decoding depends on, as opening the message made sure
// of that. Compared byte for byte: the prologue, SCHEMA, MESSAGE; each tensor's parameters; each chunk's exceptions
// and, if its coder's bytes follow from the symbols (Coder::is_canonical) or its form is not the coder's, its streams.
// Of other coders' bytes (zstd), which depend on the library and on the effort, only the form is compared: a constant
// wherever that is smaller than `pack`, and the coder's only if that is. Of TREE and METADATA: their order, and that
// packing made them smaller. Not seen: parameters that an encoder chose otherwise than this program's would.
// Throws what StoredMessage::load throws. The result does not depend on `threads`.
std::vector<Departure> check_canonical(const StoredMessage& message, unsigned threads, uint64_t memory,
                                       Progress& progress, size_t most = 100);

}  // namespace gradcodec
