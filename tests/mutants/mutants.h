// Quantizers broken in the ways that real ones are, each under the law of the honest one, and what must catch them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mutants/quantizer.h"

namespace gradcodec {

// One that shows on any tensor that is large enough.
struct Mutant {
  std::string_view name;
  Mutation mutation;
  bool half, subtractive;              // of which honest schemes it is a broken form
  std::vector<std::string> caught_by;  // names of findings, one of which must be broken, and be the reason given
};

// `seed`: of the messages that will be tested.
std::vector<Mutant> mutants(uint64_t seed);

// Those that need a tensor of their own to show, or to show alone.
Mutation ordinal_ignored();               // every tensor of a message draws the same numbers
Mutation shortest_of(uint16_t attempts);  // stores the shortest of several encodings
Mutation reciprocal();                    // multiplies by 1 / step: moves lattice points
Mutation narrow_dither();                 // v from 1/4 to 3/4
Mutation coarse_dither();                 // v of 8 bits
Mutation last_not_dithered();             // element 65535 of each 65536 is rounded to nearest
Mutation bucket_restarts();               // elements i and i + 100 draw the same number
Mutation misreports();                    // what the encoder says it decodes to is not what it does
Mutation overclaims(double omega);        // promises that omega, whatever holds
Mutation bfloat16_step();                 // rounds to the step as it was before it was stored as bfloat16

// The one rounding of the project, but with the quotient computed as x * (1 / step).
int32_t round_by_reciprocal(float x, float v, float step, float max_level);

}  // namespace gradcodec
