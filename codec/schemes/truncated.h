// What `tnqsgd`, `tqsgd` and `tbqsgd` have in common: 2^bits levels of both signs, 0 not among them, which are designed
// for a model of the tensor's values; values beyond the last level are limited to it. The quantizer is that of
// level_quantizer.h. spec/schemes/truncated.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/levels/truncation.h"
#include "codec/scheme.h"

namespace gradcodec {

inline constexpr ParamSpec kTruncationRuleParam = {
    .kind = ParamSpec::choice,
    .name = "rule",
    .help =
        "where values are cut off: by the paper's closed form; by it with the mean error of an interval, not the "
        "worst; or exactly where the model's error is least",
    .choices = "paper|mse|exact",
    .fallback = "paper"};

constexpr ParamSpec truncation_bits_param(int least) {
  return {.kind = ParamSpec::integer,
          .name = "bits",
          .help = "2^bits levels",
          .min = static_cast<double>(least),
          .max = 8,
          .required = true,
          .decoder_needs = true,
          .example = "4"};
}

constexpr ParamSpec truncation_density_param(std::string_view fallback) {
  return {.kind = ParamSpec::choice,
          .name = "density",
          .help = "the law that the levels are for: Laplace's, or a power law fitted to the largest tenth",
          .choices = "laplace|powerlaw",
          .fallback = fallback};
}

// A scheme of this shape of levels, from parameters `bits`, `rule` and, unless it is a power law always, `density`.
class TruncatedScheme : public Scheme {
 public:
  explicit TruncatedScheme(TruncationDesign::Shape shape) : shape_(shape) {}

  std::string_view promises() const override;
  bool draws() const override { return true; }
  void check(const Params&, bool) const override {}
  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override;
  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override;

 private:
  bool is_uniform() const { return shape_ == TruncationDesign::uniform; }
  TruncationDesign design_of(const Params& params) const;

  TruncationDesign::Shape shape_;
};

}  // namespace gradcodec
