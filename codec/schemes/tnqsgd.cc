// TNQSGD: levels as dense as the cube root of the values' density is best, for Laplace's law (Yan, Li, Xiao, Li and
// Song, arXiv 2402.01160) or a tail of a power law (Yan, Li, Xiao, Hou and Song, arXiv 2402.01798).
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/tnqsgd.h"

#include <array>

#include "codec/schemes/truncated.h"

namespace gradcodec {
namespace {

constexpr std::array kParams = {truncation_bits_param(1), truncation_density_param("laplace"), kTruncationRuleParam};

class Tnqsgd final : public TruncatedScheme {
 public:
  Tnqsgd() : TruncatedScheme(TruncationDesign::nonuniform) {}
  std::string_view name() const override { return "tnqsgd"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override {
    return "2^bits levels, denser where values are, the largest values limited";
  }
  std::string_view source() const override {
    return "Yan et al., arXiv 2402.01160 (Laplace); arXiv 2402.01798 (power law)";
  }
};

}  // namespace

const Scheme& tnqsgd_scheme() {
  static const Tnqsgd scheme;
  return scheme;
}

}  // namespace gradcodec
