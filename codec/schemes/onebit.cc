// The quantizer of Seide, Fu, Droppo, Li, Yu, "1-bit stochastic gradient descent and its application to data-parallel
// distributed training of speech DNNs", Interspeech 2014.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/onebit.h"

#include <array>

#include "codec/schemes/two_means.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 1> kParams = {kAxisParam};

class OneBit final : public Scheme {
 public:
  std::string_view name() const override { return "onebit"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override {
    return "the sign, decoded to the mean of its values: one bit, a contraction";
  }
  std::string_view promises() const override {
    return "a contraction, without chance, never worse than sign: the error is ||x||^2 less the squared means times "
           "their\n"
           "counts; the sum of the values is kept; NOT unbiased: it needs error feedback";
  }
  std::string_view source() const override { return "Seide et al., Interspeech 2014"; }

  bool draws() const override { return false; }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    return prepare_means(Means::two, tensor, params, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return restore_means(Means::two, params, stored, inputs);
  }
};

}  // namespace

const Scheme& onebit_scheme() {
  static const OneBit scheme;
  return scheme;
}

}  // namespace gradcodec
