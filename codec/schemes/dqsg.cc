// Abdi and Fekri, "Nested dithered quantization for communication reduction in distributed training", arXiv 1904.01197.
// M step = max |x| over the tensor or bucket, the step rounded up to float32.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/dqsg.h"

#include <algorithm>
#include <array>
#include <limits>

#include "codec/schemes/grid_quantizer.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 3> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "levels",
     .help = "number of levels, odd: 2M+1",
     .min = 3,
     .max = 65535,
     .required = true,
     .decoder_needs = true},
    kBucketParam,
    {.kind = ParamSpec::real,
     .name = "clip",
     .help = "first limit values to this many standard deviations of the tensor (then biased)",
     .min = 1e-3,
     .max = 1e6},
}};

GridLayout layout_of(const Params& params) {
  GridLayout layout;
  layout.bucket = static_cast<uint64_t>(integer_of(params, "bucket"));
  layout.max_level = static_cast<uint32_t>(integer_of(params, "levels") / 2);
  return layout;
}

float clip_of(const Tensor& tensor, const Params& params, const Inputs& inputs, const Extent& extent) {
  if (params.count("clip") == 0) return std::numeric_limits<float>::infinity();
  return clip_limit(real_of(params, "clip"), tensor, inputs, extent);
}

// d step^2 / 12 for d values of norm at least max|x| = M step, but for the rounding of the step.
double omega_of(uint64_t values, uint32_t max_level) {
  const auto levels = static_cast<double>(max_level);
  return static_cast<double>(values) / (12 * levels * levels) * (1 + 0x1p-21);
}

class Dqsg final : public Scheme {
 public:
  std::string_view name() const override { return "dqsg"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "subtractive dither, 2M+1 levels over the range of the values"; }
  std::string_view promises() const override {
    return "unbiased; each error uniform on (-step/2, step/2) and independent of the value, step = max|x| / M;\n"
           "variance step^2/12 an element exactly; with clip, all this for the clipped values";
  }
  std::string_view source() const override { return "Abdi and Fekri, arXiv 1904.01197; AAAI 2020, supplement 1"; }

  bool draws() const override { return true; }

  void check(const Params& params, bool) const override {
    const int64_t levels = integer_of(params, "levels");
    if (levels % 2 == 0) throw Error(Exit::usage, "'levels' must be odd, not " + std::to_string(levels));
  }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    GridLayout layout = layout_of(params);
    const Extent extent = scan_extent(tensor, inputs);
    const float clip = clip_of(tensor, params, inputs, extent);
    const uint32_t max_level = layout.max_level;
    if (layout.bucket == 0) layout.step = step_for_range(std::min(extent.max, clip), max_level);
    GridChoice choice;
    choice.clip = clip;
    choice.exceptions = extent.irregular > 0;
    choice.rule = [max_level](std::span<const float> x) { return step_for_range(extent_of(x).max, max_level); };
    choice.omega = omega_of(layout.bucket == 0 ? tensor.size() : layout.bucket, max_level);
    return std::make_unique<GridEncoder>(tensor, layout, inputs, std::move(choice));
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return GridDecoder::restore(layout_of(params), stored, inputs);
  }
};

}  // namespace

const Scheme& dqsg_scheme() {
  static const Dqsg scheme;
  return scheme;
}

}  // namespace gradcodec
