// Faghri et al., "Adaptive gradient quantization for data-parallel SGD", NeurIPS 2020, arXiv 2010.12460.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/alq.h"

#include "codec/levels/fitted.h"
#include "codec/schemes/levels/adaptive_levels.h"

namespace gradcodec {
namespace {

// The model's levels are where one more descent begins.
std::vector<double> fit(const MagnitudeLaw& model, const MagnitudeLaw& tensor, unsigned s) {
  const std::vector<std::vector<double>> of_model = {alq_levels(model, s)};
  return alq_levels(tensor, s, of_model);
}

class Alq final : public AdaptiveLevels {
 public:
  Alq() : AdaptiveLevels(fit) {}
  std::string_view name() const override { return "alq"; }
  std::string_view summary() const override { return "random rounding to levels fitted to the tensor, each by itself"; }
  std::string_view promises() const override {
    return "unbiased; |x| goes to one of its neighbours among 0, l_1 N, ..., l_s N, N, N the Euclidean norm of the\n"
           "bucket; the levels l, stored, are fitted to the tensor, beginning with a mixture of normal laws, and\n"
           "fall back to powers of two where none are better";
  }
  std::string_view source() const override { return "Faghri et al., NeurIPS 2020; arXiv 2010.12460"; }
};

}  // namespace

const Scheme& alq_scheme() {
  static const Alq scheme;
  return scheme;
}

}  // namespace gradcodec
