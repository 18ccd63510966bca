// eden, and what drive, which is eden of one bit, takes from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "codec/scheme.h"

namespace gradcodec {

const Scheme& eden_scheme();

namespace eden {

inline constexpr ParamSpec kScaleParam = {
    .kind = ParamSpec::choice,
    .name = "scale",
    .help = "ls: of the least error, shorter than x; unbiased: as long along x as x is",
    .choices = "unbiased|ls",
    .fallback = "unbiased"};

inline constexpr std::string_view kPromises =
    "scale=unbiased: <x', x> = ||x||^2 in every message, so no error along x; unbiased only nearly, as a Hadamard\n"
    "rotation is not uniform among all rotations. scale=ls: E||x'-x||^2 at most .5, .31, .10, .03 of ||x||^2 at 1, 2,\n"
    "3, 4 bits for any x (about .36, .12, .035, .0095 for large blocks)";

// `params` has scale (to prepare), block and shared.
std::unique_ptr<Encoder> prepare(const Tensor& tensor, unsigned bits, const Params& params, const Inputs& inputs);
std::unique_ptr<Decoder> restore(unsigned bits, const Params& params, const Inputs& inputs);

}  // namespace eden
}  // namespace gradcodec
