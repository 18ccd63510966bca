// Error feedback over any scheme that is a contraction: what was not sent is added to what comes next (Seide et al.,
// "1-bit stochastic gradient descent", Interspeech 2014; Karimireddy et al., arXiv 1901.09847, algorithm 2).
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/ef.h"

#include <array>

#include "codec/memory/residual.h"

namespace gradcodec {
namespace {

constexpr std::array<std::string_view, 1> kVectors = {"e"};

class ErrorFeedback final : public Scheme {
 public:
  std::string_view name() const override { return "ef"; }
  std::span<const ParamSpec> params() const override { return {}; }
  std::string_view summary() const override { return "error feedback: what was not sent is added to the next step"; }
  std::string_view promises() const override {
    return "biased for the step, but nothing is lost: all that was sent and what is remembered are together all that\n"
           "was to be sent; over a contraction what is remembered stays bounded, E ||e||^2 <= 4 (1 - delta) / delta^2\n"
           "of the largest ||x||^2";
  }
  std::string_view source() const override {
    return "Seide et al., Interspeech 2014; Karimireddy et al., arXiv 1901.09847; Stich et al., arXiv 1809.07599";
  }
  bool draws() const override { return false; }
  Inner inner() const override { return Inner::required; }
  std::span<const std::string_view> vectors() const override { return kVectors; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params&, const Inputs& inputs) const override {
    return std::make_unique<ResidualEncoder>(tensor, inputs, 1, 1, name());
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return restore_known(stored, inputs);
  }
};

}  // namespace

const Scheme& ef_scheme() {
  static const ErrorFeedback scheme;
  return scheme;
}

}  // namespace gradcodec
