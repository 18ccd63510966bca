// Faghri et al., "Adaptive gradient quantization for data-parallel SGD", NeurIPS 2020, arXiv 2010.12460.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/amq.h"

#include "codec/levels/fitted.h"
#include "codec/schemes/levels/adaptive_levels.h"

namespace gradcodec {
namespace {

std::vector<double> fit(const MagnitudeLaw& model, const MagnitudeLaw& tensor, unsigned s) {
  std::vector<double> of_model = powers(amq_base(model, s), s), of_tensor = powers(amq_base(tensor, s), s);
  return expected_variance(tensor, of_model) < expected_variance(tensor, of_tensor) ? of_model : of_tensor;
}

class Amq final : public AdaptiveLevels {
 public:
  Amq() : AdaptiveLevels(fit) {}
  std::string_view name() const override { return "amq"; }
  std::string_view summary() const override { return "random rounding to powers of a number fitted to the tensor"; }
  std::string_view promises() const override {
    return "unbiased; |x| goes to one of its neighbours among 0, p^s N, ..., p N, N, N the Euclidean norm of the\n"
           "bucket; p is fitted to the tensor, and falls back to 1/2 where none is better";
  }
  std::string_view source() const override { return "Faghri et al., NeurIPS 2020; arXiv 2010.12460"; }
};

}  // namespace

const Scheme& amq_scheme() {
  static const Amq scheme;
  return scheme;
}

}  // namespace gradcodec
