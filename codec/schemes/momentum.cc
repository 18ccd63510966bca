// Momentum before the compression and error accumulation behind it, with factor masking: u = m u + x, v = v + u, and v
// is coded. What was sent leaves v, and its momentum is forgotten (Lin et al., "Deep gradient compression", ICLR 2018,
// arXiv 1712.01887, sections 3.1 and 3.2; Ivkin et al., "Communication-efficient distributed SGD with sketching", arXiv
// 1903.04488, algorithm 3). Over a sketch nothing has been sent yet: what the server took is taken from both later, by
// whoever holds the memory (format/unsent.h).
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/momentum.h"

#include <array>
#include <cmath>

#include "codec/memory/remembering.h"

namespace gradcodec {
namespace {

constexpr std::array<std::string_view, 2> kVectors = {"v", "u"};

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::real, .name = "m", .help = "the momentum", .min = 0, .max = 1, .fallback = "0.9"},
}};

class MomentumEncoder final : public RememberingEncoder {
 public:
  MomentumEncoder(const Tensor& tensor, const Inputs& inputs, double momentum)
      : RememberingEncoder(tensor, inputs, 1, momentum), momentum_(momentum) {}

 private:
  void settle(Range range, std::span<const float> x, std::span<float> values) const override {
    if (x.empty()) return;
    double* v = memory()->vectors[0].data() + range.first;
    double* u = memory()->vectors[1].data() + range.first;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(x[i])) continue;
      u[i] = momentum_ * u[i] + static_cast<double>(x[i]);
      v[i] += u[i];
      if (values.empty() || values[i] == 0) continue;
      v[i] -= static_cast<double>(values[i]);
      u[i] = 0;
    }
  }

  double momentum_;
};

class Momentum final : public Scheme {
 public:
  std::string_view name() const override { return "momentum"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override {
    return "momentum and error feedback with factor masking, for sparse schemes";
  }
  std::string_view promises() const override {
    return "nothing is lost: all that was sent and v are together the sum of all u; biased for the step";
  }
  std::string_view source() const override {
    return "Lin et al., ICLR 2018 (arXiv 1712.01887), section 3; Ivkin et al., arXiv 1903.04488, algorithm 3";
  }
  bool draws() const override { return false; }
  Inner inner() const override { return Inner::required; }
  std::span<const std::string_view> vectors() const override { return kVectors; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    return std::make_unique<MomentumEncoder>(tensor, inputs, real_of(params, "m"));
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return inputs.inner->restore(stored, inputs.behind());
  }
};

}  // namespace

const Scheme& momentum_scheme() {
  static const Momentum scheme;
  return scheme;
}

}  // namespace gradcodec
