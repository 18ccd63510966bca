// Plain rounding to the nearest of 2^bits - 1 levels, zero among them: what unbiased schemes are compared with.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/uniform.h"

#include <array>

#include "codec/schemes/grid_quantizer.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 2> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "bits",
     .help = "2^bits - 1 levels over the range of the values",
     .min = 2,
     .max = 16,
     .required = true,
     .decoder_needs = true,
     .example = "4"},
    kBucketParam,
}};

GridLayout layout_of(const Params& params) {
  GridLayout layout;
  layout.bucket = static_cast<uint64_t>(integer_of(params, "bucket"));
  layout.max_level = (uint32_t{1} << (integer_of(params, "bits") - 1)) - 1;
  layout.rounding = Rounding::nearest;
  return layout;
}

class Uniform final : public Scheme {
 public:
  std::string_view name() const override { return "uniform"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "rounding to nearest, without chance: biased, for contrast"; }
  std::string_view promises() const override {
    return "each error at most step / 2, step = max|x| / (2^(bits-1) - 1); NOT unbiased: the mean of many messages\n"
           "has the error of one";
  }
  std::string_view source() const override { return "midtread quantizer"; }

  bool draws() const override { return false; }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    GridLayout layout = layout_of(params);
    const uint32_t max_level = layout.max_level;
    const Extent extent = scan_extent(tensor, inputs);
    if (layout.bucket == 0) layout.step = step_for_range(extent.max, max_level);
    GridChoice choice;
    choice.exceptions = extent.irregular > 0;
    choice.rule = [max_level](std::span<const float> x) { return step_for_range(extent_of(x).max, max_level); };
    return std::make_unique<GridEncoder>(tensor, layout, inputs, std::move(choice));
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return GridDecoder::restore(layout_of(params), stored, inputs);
  }
};

}  // namespace

const Scheme& uniform_scheme() {
  static const Uniform scheme;
  return scheme;
}

}  // namespace gradcodec
