// Strict UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace gradcodec {

// Length in bytes (1 to 4) of the character that `text` begins with, or 0 if it begins with none or is empty.
size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace gradcodec
