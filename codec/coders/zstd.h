// Coder "zstd": the bytes of "pack" in one Zstandard frame. spec/coders/zstd.md is the definition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/coder.h"

namespace gradcodec {

// `level`: Zstandard's own, 1 to 22; it is not stored, and any of them expands all of them. Throws Error(usage) on
// another. The bytes that shrink writes may differ between versions of the library.
const Coder& zstd_coder(int level);

}  // namespace gradcodec
