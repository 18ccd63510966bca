// Vineeth S., "Unbiased single-scale and multi-scale quantizers for distributed optimization", arXiv 2109.12497:
// QSGDMaxNorm. With one scale for all workers, symbols can be summed as integers.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/maxnorm.h"

#include <algorithm>
#include <array>

#include "codec/schemes/qsgd.h"
#include "codec/schemes/shared_scale.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "bits",
     .help = "s = 2^bits - 1 levels on each side of zero",
     .min = 1,
     .max = 15,
     .fallback = "4",
     .decoder_needs = true},
}};

GridLayout layout_of(const Params& params) {
  GridLayout layout;
  layout.max_level = (uint32_t{1} << integer_of(params, "bits")) - 1;
  layout.rounding = Rounding::half;
  return layout;
}

class MaxNorm final : public Scheme {
 public:
  std::string_view name() const override { return "maxnorm"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "stochastic rounding over a range that workers may share"; }
  std::string_view promises() const override {
    return "unbiased; variance step^2 f (1 - f) an element exactly, step = W / (2^bits - 1), W = max |x|\n"
           "or --shared-scale; at most n W^2 / (4 s^2); symbols of one scale can be summed";
  }
  std::string_view source() const override { return "Vineeth S., arXiv 2109.12497 (QSGDMaxNorm)"; }

  bool draws() const override { return true; }
  bool takes_shared_scale() const override { return true; }
  bool adds_up(const Params&) const override { return true; }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    GridLayout layout = layout_of(params);
    const Extent extent = scan_extent(tensor, inputs);
    layout.step = step_for_range(scale_of(extent, inputs), layout.max_level);
    GridChoice choice;
    choice.exceptions = extent.irregular > 0;
    if (!inputs.shared_scale) {
      choice.omega = qsgd_omega(std::max<uint64_t>(1, tensor.size()), layout.max_level, Norm::max) + 0x1p-20;
    }
    return std::make_unique<GridEncoder>(tensor, layout, inputs, std::move(choice));
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return GridDecoder::restore(layout_of(params), stored, inputs);
  }
};

}  // namespace

const Scheme& maxnorm_scheme() {
  static const MaxNorm scheme;
  return scheme;
}

}  // namespace gradcodec
