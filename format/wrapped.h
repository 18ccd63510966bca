// Bodies that may be packed: TREE and METADATA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "codec/bytes.h"

namespace gradcodec {

// `body` behind a flag byte: 1, the size and one zstd frame if that is smaller, else 0 and the bytes themselves.
Bytes wrap_body(ByteView body);

// The inverse. Throws Error(bad_input) if nothing is in it, Error(limit) if it would unpack to more than `most` bytes
// (never allocated), Error(unsupported) on another flag. `what` names it in messages.
Bytes unwrap_body(ByteView wrapped, std::string_view what, uint64_t most);

}  // namespace gradcodec
