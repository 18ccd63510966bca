// sign: the signs, times the mean magnitude.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& sign_scheme();

}  // namespace gradcodec
