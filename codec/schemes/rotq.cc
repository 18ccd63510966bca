// A random rotation of blocks, then stochastic rounding to few levels: what eden does, but unbiased exactly.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/rotq.h"

#include <array>

#include "codec/schemes/rotation.h"
#include "codec/schemes/rounded_normal.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 3> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "bits",
     .help = "bits an element: 2^bits levels",
     .min = 2,
     .max = 4,
     .required = true,
     .decoder_needs = true},
    kBlockParam,
    kSharedParam,
}};

RoundedLayout layout_of(const Params& params, const Rotation& rotation) {
  return {static_cast<unsigned>(integer_of(params, "bits")), rotation.plan.block()};
}

class Rotq final : public Scheme {
 public:
  std::string_view name() const override { return "rotq"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override {
    return "a random rotation of blocks, then stochastic rounding to 2^bits levels";
  }
  std::string_view promises() const override {
    return "unbiased, for any input; E||x'-x||^2 is about .74, .11, .023 of ||x||^2 at 2, 3, 4 bits for large blocks,\n"
           "of whatever values";
  }
  std::string_view source() const override {
    return "the rotation of Suresh et al., arXiv 1611.00429; levels in the manner of Lloyd and Max, for rounding at "
           "random";
  }

  bool draws() const override { return true; }
  void check(const Params& params, bool) const override { check_block(params); }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const auto rotation = Rotation::of(params, inputs);
    return std::make_unique<RotationEncoder>(tensor, rotation, inputs, [&](const Tensor& rotated, const Inputs& below) {
      return std::make_unique<RoundedNormalEncoder>(rotated, layout_of(params, *rotation), below);
    });
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader&, const Inputs& inputs) const override {
    auto rotation = Rotation::of(params, inputs);
    auto inner = std::make_unique<RoundedNormalDecoder>(layout_of(params, *rotation), rotation->plan.below(inputs));
    return std::make_unique<RotationDecoder>(std::move(rotation), std::move(inner));
  }
};

}  // namespace

const Scheme& rotq_scheme() {
  static const Rotq scheme;
  return scheme;
}

}  // namespace gradcodec
