// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/levels/norm_levels.h"

#include "codec/levels/fitted.h"
#include "codec/levels/spread.h"

namespace gradcodec {

LevelLayout norm_layout(std::span<const float> magnitudes, uint64_t bucket) {
  LevelLayout layout;
  layout.levels = mirrored_levels(magnitudes, true);
  layout.scaled = true;
  layout.bucket = bucket;
  return layout;
}

std::unique_ptr<Encoder> prepare_by_norm(const Tensor& tensor, const Inputs& inputs, LevelLayout layout,
                                         const Extent& extent) {
  const std::vector<float>& levels = layout.levels;
  if (layout.bucket == 0) layout.scale = norm_scale(tensor, inputs, extent.max, levels);
  LevelChoice choice;
  choice.exceptions = extent.irregular > 0;
  choice.rule = [levels](std::span<const float> x) { return norm_scale(x, levels); };
  const std::span<const float> magnitudes = std::span(levels).subspan(levels.size() / 2 + 1);
  choice.omega = level_bound(magnitudes, static_cast<double>(layout.bucket == 0 ? tensor.size() : layout.bucket));
  return std::make_unique<LevelEncoder>(tensor, std::move(layout), inputs, std::move(choice));
}

}  // namespace gradcodec
