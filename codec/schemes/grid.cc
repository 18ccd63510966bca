// The quantizer that Reisizadeh et al., "Robust and communication-efficient collaborative learning" (QuanTimed-DSGD),
// NeurIPS 2019, arXiv 1907.10595, assume: unbiased, of a variance that is bounded whatever the values are.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/grid.h"

#include <array>

#include "codec/schemes/grid_quantizer.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::real,
     .name = "step",
     .help = "distance of the levels",
     .min = 1e-37,
     .max = 1e37,
     .required = true,
     .example = "0.001"},
}};

GridLayout layout_of() {
  GridLayout layout;
  layout.stores_level = true;
  layout.rounding = Rounding::half;
  return layout;
}

class Grid final : public Scheme {
 public:
  std::string_view name() const override { return "grid"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "stochastic rounding to multiples of a step"; }
  std::string_view promises() const override {
    return "unbiased; variance step^2 f (1 - f) an element exactly, at most n step^2 / 4 whatever the values;\n"
           "values beyond 32,767 steps are kept exactly";
  }
  std::string_view source() const override {
    return "as assumed by Reisizadeh et al., arXiv 1907.10595 (QuanTimed-DSGD)";
  }

  bool draws() const override { return true; }
  bool adds_up(const Params&) const override { return true; }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    GridLayout layout = layout_of();
    const Extent extent = scan_extent(tensor, inputs);
    layout.step = extent.max == 0 ? 0 : clamp_step(real_of(params, "step"));
    Reach reach{level_for(extent.max, layout.step), false};
    if (reach.max_level == kMaxLevel) reach = reach_of(tensor, inputs, layout, {});  // the largest may be set aside
    layout.max_level = reach.max_level;
    GridChoice choice;
    choice.exceptions = extent.irregular > 0 || reach.exceeded;
    return std::make_unique<GridEncoder>(tensor, layout, inputs, std::move(choice));
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return GridDecoder::restore(layout_of(), stored, inputs);
  }
};

}  // namespace

const Scheme& grid_scheme() {
  static const Grid scheme;
  return scheme;
}

}  // namespace gradcodec
