// SPDX-License-Identifier: Apache-2.0
#include "codec/planes.h"

#include "codec/kernels/kernels.h"

namespace gradcodec {

void split_planes(ByteView in, unsigned word, std::span<std::byte> out) {
  kernels::split_planes(in.data(), in.size() / word, word, out.data());
}

void join_planes(ByteView in, unsigned word, std::span<std::byte> out) {
  kernels::join_planes(in.data(), in.size() / word, word, out.data());
}

}  // namespace gradcodec
