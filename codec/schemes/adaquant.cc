// Jhunjhunwala, Gadhikar, Joshi, Eldar, "Adaptive quantization of model updates for communication-efficient federated
// learning" (AdaQuantFL), ICASSP 2021, arXiv 2102.04487: s = s0 sqrt(loss0 / loss), rounded up; the quantizer is
// QSGD's.
//
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/adaquant.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/schemes/qsgd.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 4> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "s0",
     .help = "levels on each side of zero at the first loss",
     .min = 1,
     .max = kMaxLevel,
     .required = true,
     .example = "2"},
    {.kind = ParamSpec::real,
     .name = "loss0",
     .help = "the first loss; --loss-attribute takes both from a trace",
     .min = 1e-30,
     .max = 1e30,
     .required = true,
     .example = "2.3"},
    {.kind = ParamSpec::real,
     .name = "loss",
     .help = "the loss now: s is the smallest number with s^2 loss >= s0^2 loss0, at most 32767",
     .min = 1e-30,
     .max = 1e30,
     .required = true,
     .example = "0.6"},
    {.kind = ParamSpec::integer,
     .name = "bucket",
     .help = "elements that share a norm; 0: the whole tensor",
     .max = static_cast<double>(kMaxBucket),
     .fallback = "512",
     .decoder_needs = true},
}};

// Products in float64, so that a ratio of 4 gives exactly 2 s0.
uint32_t levels_for(const Params& params) {
  const auto s0 = static_cast<double>(integer_of(params, "s0"));
  const double goal = s0 * s0 * real_of(params, "loss0"), loss = real_of(params, "loss");
  const auto enough = [&](double s) { return s * s * loss >= goal; };
  double s = std::clamp(std::floor(std::sqrt(goal / loss)), 1.0, static_cast<double>(kMaxLevel));
  while (s > 1 && enough(s - 1)) --s;
  while (s < static_cast<double>(kMaxLevel) && !enough(s)) ++s;
  return static_cast<uint32_t>(s);
}

GridLayout layout_of(const Params& params) {
  GridLayout layout;
  layout.bucket = static_cast<uint64_t>(integer_of(params, "bucket"));
  layout.stores_level = true;
  layout.reaches_all = true;
  layout.rounding = Rounding::half;
  return layout;
}

class AdaQuant final : public Scheme {
 public:
  std::string_view name() const override { return "adaquant"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "qsgd with more levels as the loss falls"; }
  std::string_view promises() const override {
    return "as qsgd with norm=l2 and the s that the losses give, which `info` shows as M";
  }
  std::string_view source() const override { return "Jhunjhunwala et al., arXiv 2102.04487 (AdaQuantFL)"; }

  bool draws() const override { return true; }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    GridLayout layout = layout_of(params);
    layout.max_level = levels_for(params);
    return prepare_qsgd(tensor, layout, Norm::l2, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return GridDecoder::restore(layout_of(params), stored, inputs);
  }
};

}  // namespace

const Scheme& adaquant_scheme() {
  static const AdaQuant scheme;
  return scheme;
}

}  // namespace gradcodec
