// Vargaftik et al., "EDEN: communication-efficient and robust distributed mean estimation for federated learning",
// arXiv 2108.08842: a random rotation, the nearest of the centroids of the normal law, a scale for each block.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/eden.h"

#include <array>

#include "codec/schemes/nearest_normal.h"
#include "codec/schemes/rotation.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 4> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "bits",
     .help = "bits an element: 2^bits centroids",
     .min = 1,
     .max = 4,
     .required = true,
     .decoder_needs = true},
    eden::kScaleParam,
    kBlockParam,
    kSharedParam,
}};

class Eden final : public Scheme {
 public:
  std::string_view name() const override { return "eden"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override {
    return "a random rotation of blocks, then the nearest of 2^bits normal levels";
  }
  std::string_view promises() const override { return eden::kPromises; }
  std::string_view source() const override { return "Vargaftik et al., arXiv 2108.08842"; }

  bool draws() const override { return true; }
  void check(const Params& params, bool) const override { check_block(params); }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    return eden::prepare(tensor, bits_of(params), params, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader&, const Inputs& inputs) const override {
    return eden::restore(bits_of(params), params, inputs);
  }

 private:
  static unsigned bits_of(const Params& params) { return static_cast<unsigned>(integer_of(params, "bits")); }
};

}  // namespace

namespace eden {

std::unique_ptr<Encoder> prepare(const Tensor& tensor, unsigned bits, const Params& params, const Inputs& inputs) {
  const auto rotation = Rotation::of(params, inputs);
  const NormalLayout layout = {bits, rotation->plan.block()};
  const auto kind = choice_of(params, "scale") == "ls" ? NormalScale::least_squares : NormalScale::unbiased;
  return std::make_unique<RotationEncoder>(tensor, rotation, inputs, [&](const Tensor& rotated, const Inputs& below) {
    return std::make_unique<NearestNormalEncoder>(rotated, layout, below, kind);
  });
}

std::unique_ptr<Decoder> restore(unsigned bits, const Params& params, const Inputs& inputs) {
  auto rotation = Rotation::of(params, inputs);
  const NormalLayout layout = {bits, rotation->plan.block()};
  return std::make_unique<RotationDecoder>(std::move(rotation), std::make_unique<NearestNormalDecoder>(layout));
}

}  // namespace eden

const Scheme& eden_scheme() {
  static const Eden scheme;
  return scheme;
}

}  // namespace gradcodec
