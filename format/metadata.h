// The METADATA block: what the user wants to keep in the file, as deterministic CBOR.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "codec/bytes.h"

namespace gradcodec {

// {"program": program, "user": the JSON value}; empty if `json` is empty. Throws Error(usage) if it is not JSON, nested
// more than 14 deep or larger than 16 MiB.
Bytes metadata_block(std::string_view program, std::string_view json);

// As JSON text on one line. Throws Error(bad_input) unless it is CBOR in the form that metadata_block writes.
std::string metadata_json(ByteView block);

}  // namespace gradcodec
