// Faghri et al., "Adaptive gradient quantization for data-parallel SGD", NeurIPS 2020, arXiv 2010.12460.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/amq.h"

#include "codec/levels/fitted.h"
#include "codec/schemes/adaptive_levels.h"

namespace gradcodec {
namespace {

std::vector<double> fit(const NormalMixture& law, unsigned s) { return powers(amq_base(law, s), s); }

class Amq final : public AdaptiveLevels {
 public:
  Amq() : AdaptiveLevels(fit) {}
  std::string_view name() const override { return "amq"; }
  std::string_view summary() const override { return "random rounding to powers of a number fitted to the tensor"; }
  std::string_view promises() const override {
    return "unbiased; |x| goes to one of its neighbours among 0, p^s N, ..., p N, N, N the Euclidean norm of the\n"
           "bucket; p is fitted to a mixture of normal laws, and falls back to 1/2 where that has less variance";
  }
  std::string_view source() const override { return "Faghri et al., NeurIPS 2020; arXiv 2010.12460"; }
};

}  // namespace

const Scheme& amq_scheme() {
  static const Amq scheme;
  return scheme;
}

}  // namespace gradcodec
