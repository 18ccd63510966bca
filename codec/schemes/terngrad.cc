// Wen et al., "TernGrad: Ternary gradients to reduce communication in distributed deep learning", NeurIPS 2017: QSGD
// with one level a side, the largest magnitude of the tensor, after clipping.
//
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/terngrad.h"

#include <algorithm>
#include <array>

#include "codec/schemes/qsgd.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::real,
     .name = "clip",
     .help = "first limit values to this many standard deviations of the tensor (then biased)",
     .min = 1e-3,
     .max = 1e6,
     .example = "2.5"},
}};

GridLayout layout_of() {
  GridLayout layout;
  layout.max_level = 1;
  layout.rounding = Rounding::half;
  return layout;
}

class TernGrad final : public Scheme {
 public:
  std::string_view name() const override { return "terngrad"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "stochastic rounding to -max, 0, max of the tensor"; }
  std::string_view promises() const override {
    return "unbiased; variance max ||x||_1 - ||x||^2 exactly, at most (sqrt(n) - 1)/2 ||x||^2;\n"
           "with clip, all this for the clipped values";
  }
  std::string_view source() const override { return "Wen et al., NeurIPS 2017, arXiv 1705.07878"; }

  bool draws() const override { return true; }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    GridLayout layout = layout_of();
    const Extent extent = scan_extent(tensor, inputs);
    GridChoice choice;
    if (params.count("clip") != 0) choice.clip = clip_limit(real_of(params, "clip"), tensor, inputs, extent);
    choice.exceptions = extent.irregular > 0;
    choice.omega = qsgd_omega(std::max<uint64_t>(1, tensor.size()), 1, Norm::max) + 0x1p-20;
    layout.step = step_for_range(std::min(extent.max, choice.clip), layout.max_level);
    return std::make_unique<GridEncoder>(tensor, layout, inputs, std::move(choice));
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return GridDecoder::restore(layout_of(), stored, inputs);
  }
};

}  // namespace

const Scheme& terngrad_scheme() {
  static const TernGrad scheme;
  return scheme;
}

}  // namespace gradcodec
