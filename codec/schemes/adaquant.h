// adaquant: qsgd with as many levels as the loss asks for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& adaquant_scheme();

}  // namespace gradcodec
