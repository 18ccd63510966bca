// The quantizer to one bit, which `sign` and `onebit` are presets of: whether x < 0, decoded to a mean of the values of
// that sign, of the whole tensor or of each row. Without chance, and a projection: of all that may be decoded from
// these bits, the means are nearest to x.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/scheme.h"

namespace gradcodec {

// one: +-||x||_1 / d (Karimireddy et al., arXiv 1901.09847, "scaled sign"). two: the mean of the values from 0 up, and
// that of those below (Seide et al., Interspeech 2014, "1-bit SGD").
enum class Means : uint8_t { one, two };

inline constexpr ParamSpec kAxisParam = {.kind = ParamSpec::choice,
                                         .name = "axis",
                                         .help = "what has means of its own: the tensor, or each row (the last axis)",
                                         .choices = "tensor|row",
                                         .fallback = "tensor",
                                         .decoder_needs = true};

std::unique_ptr<Encoder> prepare_means(Means means, const Tensor& tensor, const Params& params, const Inputs& inputs);
std::unique_ptr<Decoder> restore_means(Means means, const Params& params, ByteReader& stored, const Inputs& inputs);

}  // namespace gradcodec
