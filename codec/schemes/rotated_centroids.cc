// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/rotated_centroids.h"

namespace gradcodec {

std::unique_ptr<Encoder> prepare_rotated_centroids(const Tensor& tensor, unsigned bits, const Params& params,
                                                   const Inputs& inputs) {
  const auto rotation = Rotation::of(params, inputs);
  const NormalLayout layout = {bits, rotation->plan.block()};
  const auto kind = choice_of(params, "scale") == "ls" ? NormalScale::least_squares : NormalScale::unbiased;
  return std::make_unique<RotationEncoder>(tensor, rotation, inputs, [&](const Tensor& rotated, const Inputs&) {
    return std::make_unique<NearestNormalEncoder>(rotated, layout, kind);
  });
}

std::unique_ptr<Decoder> restore_rotated_centroids(unsigned bits, const Params& params, const Inputs& inputs) {
  auto rotation = Rotation::of(params, inputs);
  const NormalLayout layout = {bits, rotation->plan.block()};
  return std::make_unique<RotationDecoder>(std::move(rotation), std::make_unique<NearestNormalDecoder>(layout));
}

}  // namespace gradcodec
