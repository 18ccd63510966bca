// raw: the elements' bytes, exactly, of any type, as planes (codec/planes.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& raw_scheme();

}  // namespace gradcodec
