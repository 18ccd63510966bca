// TBQSGD: short intervals near 0, long ones beyond, and the largest values limited (Yan, Li, Xiao, Hou and Song,
// "Improved quantization strategies for managing heavy-tailed gradients in distributed learning", arXiv 2402.01798).
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/tbqsgd.h"

#include <array>

#include "codec/schemes/truncated.h"

namespace gradcodec {
namespace {

constexpr std::array kParams = {truncation_bits_param(2), kTruncationRuleParam};

class Tbqsgd final : public TruncatedScheme {
 public:
  Tbqsgd() : TruncatedScheme(TruncationDesign::two_scales) {}
  std::string_view name() const override { return "tbqsgd"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "2^bits levels with two spacings, the largest values limited"; }
  std::string_view source() const override { return "Yan et al., arXiv 2402.01798"; }
};

}  // namespace

const Scheme& tbqsgd_scheme() {
  static const Tbqsgd scheme;
  return scheme;
}

}  // namespace gradcodec
