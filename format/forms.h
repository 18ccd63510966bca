// A frame's payload from a chunk's code, and back: exceptions, chunk parameters, streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/coder.h"
#include "codec/scheme.h"
#include "format/layout.h"

namespace gradcodec {

// Appends the exceptions (count, then a gap and the float32 bits of each); nothing if there are none.
void write_exceptions(std::span<const Exception> list, Bytes& out);

// Of a chunk of `len` elements. Throws Error(bad_input) unless they are in order and below len, and at least one if not
// `may_be_empty`.
void read_exceptions(ByteReader& in, uint64_t len, bool may_be_empty, std::vector<Exception>& list);

// Sets the contexts of the chunk's streams if the coder uses them. `code` holds the chunk's parameters; streams that
// are not there yet are made.
void set_contexts(const Decoder& decoder, const Coder& coder, const ChunkShape& shape, Range range, Code& code);

// Appends the streams (each but the last behind its length) in the smallest form; in Form::coder whatever its size if
// `forms` is false. Returns the form used.
Form write_streams(std::span<const Stream> streams, const Coder& coder, bool forms, Bytes& out);

// The inverse, from all that is left of `in`; the streams' contexts are set, if the coder uses them. Throws
// Error(bad_input) on what write_streams cannot have written.
void read_streams(ByteReader& in, Form form, std::span<const StreamShape> shapes, const Coder& coder,
                  std::vector<Stream>& streams);

}  // namespace gradcodec
