// Levels times the Euclidean norm of a tensor or bucket: what `nuqsgd`, `alq` and `amq` have in common. They differ in
// how the levels between 0 and 1 are chosen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "codec/schemes/level_quantizer.h"

namespace gradcodec {

// How many levels lie between 0 and 1: 2 s + 3 are the table, which is a byte a symbol at most.
constexpr ParamSpec inner_levels_param(double most) {
  return {.kind = ParamSpec::integer,
          .name = "s",
          .help = "levels between 0 and 1, which are two more, each but 0 with both signs",
          .min = 1,
          .max = most,
          .required = true,
          .decoder_needs = true,
          .example = "4"};
}

constexpr ParamSpec norm_bucket_param(std::string_view fallback) {
  return {.kind = ParamSpec::integer,
          .name = "bucket",
          .help = "elements that share a norm; 0: the whole tensor",
          .min = 0,
          .max = static_cast<double>(uint64_t{1} << 22),
          .fallback = fallback,
          .decoder_needs = true};
}

// Of increasing magnitudes, the last of them 1.
LevelLayout norm_layout(std::span<const float> magnitudes, uint64_t bucket);

// With scales by norm_scale, promising omega by level_bound. `extent` is the tensor's.
std::unique_ptr<Encoder> prepare_by_norm(const Tensor& tensor, const Inputs& inputs, LevelLayout layout,
                                         const Extent& extent);

}  // namespace gradcodec
