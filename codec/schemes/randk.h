// randk: k elements drawn at random, scaled to be unbiased.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& randk_scheme();

}  // namespace gradcodec
