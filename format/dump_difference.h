// Two dumps compared to the bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "format/dumps/source.h"

namespace gradcodec {

// The first way in which `got` is not `expected`, for people; empty if there is none. Compared are the tensors by name,
// in any order, their element types, shapes and the bits of all elements, NaN's too; byte order and layout in the file
// are not. Throws what reading throws.
std::string first_difference(Source& expected, Source& got);

}  // namespace gradcodec
