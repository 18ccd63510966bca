// A frame's payload from a chunk's code, and back: exceptions, chunk parameters, streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <type_traits>
#include <vector>

#include "codec/coder.h"
#include "codec/scheme.h"
#include "format/layout.h"

namespace gradcodec {

// Appends the exceptions (count, then a gap and the float32 bits of each); nothing if there are none.
void write_exceptions(std::span<const Exception> list, Bytes& out);

// Of a chunk of `len` elements. Throws Error(bad_input) unless they are in order and below len, and at least one if not
// `may_be_empty`.
void read_exceptions(ByteReader& in, uint64_t len, bool may_be_empty, std::vector<Exception>& list);

// The streams of a chunk, those of the schemes below it too, in the order of the file. Refers to what it is made from.
template <typename S>  // Stream or const Stream
class StreamListOf {
 public:
  using CodeOf = std::conditional_t<std::is_const_v<S>, const Code, Code>;
  StreamListOf(CodeOf& code) { add(code); }
  StreamListOf(std::span<S> streams) { add(streams); }
  StreamListOf(std::conditional_t<std::is_const_v<S>, const std::vector<Stream>, std::vector<Stream>>& streams) {
    add(streams);
  }
  size_t size() const { return size_; }
  S& operator[](size_t i) const { return *streams_[i]; }

 private:
  void add(std::span<S> streams) {
    if (streams.size() > streams_.size() - size_) throw Error(Exit::bug, "a chunk of too many streams");
    for (S& stream : streams) streams_[size_++] = &stream;
  }
  void add(CodeOf& code) {
    add(std::span<S>(code.streams));
    if (code.inner) add(*code.inner);
    if (code.rest) add(*code.rest);
  }

  std::array<S*, StreamShapes::kMost> streams_ = {};
  size_t size_ = 0;
};
using StreamList = StreamListOf<const Stream>;

// Drops what another tensor left in `code` below the schemes that this one has.
void fit_code(const Decoder& decoder, Code& code);

// Appends the chunk's parameters, then for each scheme below it, or of the sum that it is, its exceptions (a count of 0
// if there are none) and its parameters.
void write_params(const Code& code, Bytes& out);

// Sets the contexts of the chunk's streams, those of schemes below too, if the coder uses them.
void set_contexts(const Decoder& decoder, const Coder& coder, Range range, Code& code);

// Appends the streams (each but the last behind its length) in the smallest form; in Form::coder whatever its size if
// `forms` is false. Returns the form used.
Form write_streams(const StreamList& streams, const Coder& coder, bool forms, Bytes& out);

// All of a chunk's code but its exceptions, from all that is left of `in`. Throws Error(bad_input) on what write_params
// and write_streams cannot have written.
void read_code(ByteReader& in, Form form, const Decoder& decoder, const Coder& coder, Range range, Code& code);

// The streams alone; their contexts are set, if the coder uses them.
void read_streams(ByteReader& in, Form form, std::span<const StreamShape> shapes, const Coder& coder,
                  std::vector<Stream>& streams);

}  // namespace gradcodec
