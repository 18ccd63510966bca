// SPDX-License-Identifier: Apache-2.0
#include "codec/scheme.h"

namespace gradcodec {

void Decoder::contexts(const Code&, size_t, Range, std::span<uint16_t>) const {
  throw Error(Exit::bug, "contexts of a stream that has none");
}

}  // namespace gradcodec
