// Faghri et al., "Adaptive gradient quantization for data-parallel SGD", NeurIPS 2020, arXiv 2010.12460.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/alq.h"

#include "codec/levels/fitted.h"
#include "codec/schemes/adaptive_levels.h"

namespace gradcodec {
namespace {

class Alq final : public AdaptiveLevels {
 public:
  Alq() : AdaptiveLevels(alq_levels) {}
  std::string_view name() const override { return "alq"; }
  std::string_view summary() const override { return "random rounding to levels fitted to the tensor, each by itself"; }
  std::string_view promises() const override {
    return "unbiased; |x| goes to one of its neighbours among 0, l_1 N, ..., l_s N, N, N the Euclidean norm of the\n"
           "bucket; the levels l, stored, are fitted to a mixture of normal laws, and fall back to powers of two\n"
           "where these have less variance";
  }
  std::string_view source() const override { return "Faghri et al., NeurIPS 2020; arXiv 2010.12460"; }
};

}  // namespace

const Scheme& alq_scheme() {
  static const Alq scheme;
  return scheme;
}

}  // namespace gradcodec
