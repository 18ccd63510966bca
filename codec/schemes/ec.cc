// Error compensation (Wu, Huang, Huang, Zhang, "Error compensated quantized SGD", ICML 2018, arXiv 1806.08054, section
// 3): alpha h is added to what is sent, and h' = beta h + (x - c) remembers the raw values minus what was decoded.
// `ec-qsgd` is it over qsgd.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/ec.h"

#include <array>

#include "codec/memory/residual.h"

namespace gradcodec {
namespace {

constexpr std::array<std::string_view, 1> kVectors = {"h"};

constexpr std::array<ParamSpec, 2> kParams = {{
    {.kind = ParamSpec::real,
     .name = "alpha",
     .help = "how much of what is remembered is added [beta / (1 + omega of the scheme behind]",
     .min = 0,
     .max = 1},
    {.kind = ParamSpec::real,
     .name = "beta",
     .help = "how much of what is remembered stays",
     .min = 0,
     .max = 1,
     .fallback = "1"},
}};

class ErrorCompensation final : public Scheme {
 public:
  std::string_view name() const override { return "ec"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "error compensation with decay: x + alpha h is sent"; }
  std::string_view promises() const override {
    return "over an unbiased scheme unbiased for x + alpha h, so biased for x; h = sum of beta^(T-1-t) (x_t - c_t);\n"
           "h stays bounded if (beta - alpha)^2 + alpha^2 omega < 1, which alpha = beta / (1 + omega) makes true";
  }
  std::string_view source() const override { return "Wu et al., ICML 2018 (arXiv 1806.08054), section 3"; }
  bool draws() const override { return false; }
  Inner inner() const override { return Inner::required; }
  std::span<const std::string_view> vectors() const override { return kVectors; }
  void check(const Params&, bool) const override {}

  // Without alpha: that for which lambda is least, beta / (1 + omega). What omega is follows from the scheme's
  // parameters and the size, or from the values as they are before anything is added. Without an omega errors are
  // bounded in themselves, or those of a contraction, and all that is remembered may be added.
  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const double beta = real_of(params, "beta");
    double alpha = beta;
    if (params.count("alpha") != 0) {
      alpha = real_of(params, "alpha");
    } else {
      const Promise plain = inputs.inner->prepare(tensor, inputs.behind())->promise();
      if (plain.unbiased && plain.omega) alpha = beta / (1 + *plain.omega);
    }
    return std::make_unique<ResidualEncoder>(tensor, inputs, alpha, beta, name());
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return restore_known(stored, inputs);
  }
};

}  // namespace

const Scheme& ec_scheme() {
  static const ErrorCompensation scheme;
  return scheme;
}

}  // namespace gradcodec
