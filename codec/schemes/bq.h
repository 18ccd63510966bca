// Binomial quantization for privacy: values are clipped, rounded at random to s + 1 levels, and binomial noise is added
// to the level's number. spec/schemes/bq.md is the definition, and says what is private under which assumptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& bq_scheme();

// What a privacy statement needs to know of a choice of bq.
struct BinomialRelease {
  double clip = 0, step = 0;           // values are limited to [-clip, clip]; distance of levels
  uint32_t intervals = 0, trials = 0;  // s and m: a released integer is k + Z, k in 0 .. s, Z of Bin(m, 1/2)
  bool secret = true;                  // false: the noise is made for tests, and anyone can subtract it
};

// Of the parameters of a choice that compress was given.
BinomialRelease release_of(const Params& params);

}  // namespace gradcodec
