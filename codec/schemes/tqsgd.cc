// TQSGD: equal intervals over a range that the largest values lie beyond (Yan, Li, Xiao, Hou and Song, "Improved
// quantization strategies for managing heavy-tailed gradients in distributed learning", arXiv 2402.01798).
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/tqsgd.h"

#include <array>

#include "codec/schemes/truncated.h"

namespace gradcodec {
namespace {

constexpr std::array kParams = {truncation_bits_param(1), truncation_density_param("powerlaw"), kTruncationRuleParam};

class Tqsgd final : public TruncatedScheme {
 public:
  Tqsgd() : TruncatedScheme(TruncationDesign::uniform) {}
  std::string_view name() const override { return "tqsgd"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "2^bits equally spaced levels, the largest values limited"; }
  std::string_view source() const override { return "Yan et al., arXiv 2402.01798"; }
};

}  // namespace

const Scheme& tqsgd_scheme() {
  static const Tqsgd scheme;
  return scheme;
}

}  // namespace gradcodec
