// Deterministic CBOR (RFC 8949, section 4.2.1), checked by ourselves before the library sees it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "codec/bytes.h"

namespace gradcodec {

using Cbor = nlohmann::json;

struct CborLimits {
  size_t size = size_t{64} << 20;  // bytes of the whole item
  unsigned depth = 16;             // arrays and maps around a value
  size_t items = size_t{1} << 22;  // values in all: each takes many times its bytes once it is parsed
};

// Throws unless `bytes` are exactly one item of the subset we use: integers from -2^63 to 2^64 - 1, byte and text
// strings, arrays, maps, false, true, null, floats. Lengths are definite; integers, lengths and floats are in their
// shortest form; text is UTF-8; the keys of a map are text, sorted by their encoded bytes (so the shorter comes first)
// and unique; there are no tags. `what` names the bytes in messages. Takes time linear in bytes.size(), no memory.
// Error(bad_input), or Error(limit) if the item is larger than limits.size.
void check_cbor(ByteView bytes, std::string_view what, const CborLimits& limits = {});

// check_cbor, then the value.
Cbor parse_cbor(ByteView bytes, std::string_view what, const CborLimits& limits = {});

// The one encoding of `value` that check_cbor accepts: parse_cbor(write_cbor(x)) == x. NaN becomes the canonical one.
// Throws Error(bug) for text that is not UTF-8 and for what the subset lacks (binary subtypes, depth over 16).
Bytes write_cbor(const Cbor& value);

}  // namespace gradcodec
