// Coders turn symbols into bytes and back, without loss: the choice of coder never changes a decoded value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "codec/bytes.h"

namespace gradcodec {

// Symbols of one kind of one chunk. Alphabet L >= 1: `symbols` holds numbers below L (L at most 65,536). Alphabet 0:
// plain `bytes`. The other vector is empty.
struct Stream {
  uint32_t alphabet = 0;
  std::vector<uint16_t> symbols;
  Bytes bytes;

  // What both sides know of each symbol before it is decoded, for coders that use it: 2 class + mirrored, class below
  // `classes`. A mirrored symbol s stands for alphabet - 1 - s, so that what is likely is the same for both signs.
  // Empty, with classes 0, if nothing is known.
  uint32_t classes = 0;
  std::vector<uint16_t> contexts = {};

  // Beside contexts of dither's distance (kernels::kDitherClasses): how large each value is expected to be in steps, as
  // codec/model/rows.h counts. Empty if that is not known. The alphabet is odd then, and its middle is 0.
  std::vector<uint8_t> scales = {};

  uint64_t count() const { return alphabet == 0 ? bytes.size() : symbols.size(); }
};

class Coder {
 public:
  virtual ~Coder() = default;
  virtual std::string_view name() const = 0;
  virtual uint16_t id() const = 0;               // on disk; never reused
  virtual std::string_view summary() const = 0;  // one line for `schemes`

  // About the bytes of memory that it works in, for each symbol (or byte) of a stream, either way; beside the stream.
  virtual unsigned work_per_symbol() const { return 1; }

  // Whether streams of plain bytes gain by it, of any kind: it is one for symbols otherwise.
  virtual bool suits_bytes() const { return false; }

  // Whether it looks at Stream::contexts, which both sides must then fill in first.
  virtual bool uses_contexts() const { return false; }

  // And at Stream::scales. A scheme stores what they follow from for such a coder alone (Inputs::scales).
  virtual bool uses_scales() const { return false; }

  // Appends the bytes of `in` to `out`. Every symbol must be below the alphabet.
  virtual void shrink(const Stream& in, Bytes& out) const = 0;

  // The inverse: `out.alphabet` and its contexts are set, and `count` symbols (or bytes) are expected from exactly the
  // bytes `in`. Throws Error(bad_input) on bytes that no payload of that many symbols has, as the coder's page says;
  // every symbol is below the alphabet.
  virtual void expand(ByteView in, uint64_t count, Stream& out) const = 0;

  // Bytes that shrink writes for any `count` symbols of `alphabet`, if it is the same for all; else nothing.
  virtual std::optional<uint64_t> fixed_size(uint32_t alphabet, uint64_t count) const = 0;

  // Whether the bytes that shrink writes follow from the symbols and contexts alone, and not from an effort or a
  // library's version.
  virtual bool is_canonical() const = 0;
};

}  // namespace gradcodec
