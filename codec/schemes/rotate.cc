// A random rotation of blocks below which any other scheme works (Suresh, Yu, Kumar and McMahan, "Distributed mean
// estimation with limited communication", arXiv 1611.00429, section 3).
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/rotate.h"

#include <array>

#include "codec/schemes/rotation.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 2> kParams = {{kBlockParam, kSharedParam}};

class Rotate final : public Scheme {
 public:
  std::string_view name() const override { return "rotate"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "a random rotation of blocks over a quantizer: rotate/qsgd:s=4"; }
  std::string_view promises() const override {
    return "what the scheme below promises of the rotated values: unbiased, omega and contraction stay what they are";
  }
  std::string_view source() const override { return "Suresh et al., arXiv 1611.00429, section 3"; }

  bool draws() const override { return true; }
  bool adds_up(const Params& params) const override { return choice_of(params, "shared") == "yes"; }
  Inner inner() const override { return Inner::required; }
  void check(const Params& params, bool) const override { check_block(params); }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    return std::make_unique<RotationEncoder>(
        tensor, Rotation::of(params, inputs), inputs,
        [&](const Tensor& rotated, const Inputs& below) { return inputs.inner->prepare(rotated, below); });
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    auto rotation = Rotation::of(params, inputs);
    auto inner = inputs.inner->restore(stored, rotation->plan.below(inputs));
    return std::make_unique<RotationDecoder>(std::move(rotation), std::move(inner));
  }
};

}  // namespace

const Scheme& rotate_scheme() {
  static const Rotate scheme;
  return scheme;
}

}  // namespace gradcodec
