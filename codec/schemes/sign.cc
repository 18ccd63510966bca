// The compressor of Karimireddy, Rebjock, Stich, Jaggi, "Error feedback fixes signSGD and other gradient compression
// schemes", arXiv 1901.09847: ||x||_1 / d times the sign, that of 0 being +.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/sign.h"

#include <array>

#include "codec/schemes/two_means.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 1> kParams = {kAxisParam};

class Sign final : public Scheme {
 public:
  std::string_view name() const override { return "sign"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "the sign times the mean magnitude: one bit, a contraction"; }
  std::string_view promises() const override {
    return "a contraction, without chance: the error is ||x||^2 - ||x||_1^2 / d, so delta = ||x||_1^2 / (d ||x||^2) >= "
           "1/d;\n"
           "NOT unbiased: it needs error feedback";
  }
  std::string_view source() const override { return "Karimireddy et al., arXiv 1901.09847 (scaled sign)"; }

  bool draws() const override { return false; }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    return prepare_means(Means::one, tensor, params, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return restore_means(Means::one, params, stored, inputs);
  }
};

}  // namespace

const Scheme& sign_scheme() {
  static const Sign scheme;
  return scheme;
}

}  // namespace gradcodec
