// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

// `choose` as it must not be: the message is encoded under several steps, each with draws of its own and none beyond
// the error asked for, and the one whose bytes are fewest is sent. It declares the law and the promise of the quantizer
// under that step. Parameter: nmse.
const Scheme& shortest_choice_scheme();

}  // namespace gradcodec
