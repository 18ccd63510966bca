// SPDX-License-Identifier: Apache-2.0
#include "codec/memory/residual.h"

#include <cmath>

#include "codec/number_text.h"

namespace gradcodec {

ResidualEncoder::ResidualEncoder(const Tensor& tensor, const Inputs& inputs, double alpha, double beta,
                                 std::string_view name)
    : RememberingEncoder(tensor, inputs, alpha), alpha_(alpha), beta_(beta) {
  check_known(inner(), name);
}

std::string ResidualEncoder::warning() const {
  const Promise below = inner().promise();
  double lambda = 0;
  std::string formula = "(beta - alpha)^2 + alpha^2 gamma";
  if (below.unbiased && below.omega) {
    lambda = (beta_ - alpha_) * (beta_ - alpha_) + alpha_ * alpha_ * *below.omega;
  } else if (below.delta && *below.delta > 0) {  // the error may lie along h: lengths add, not squares
    const double root = std::fabs(beta_ - alpha_) + alpha_ * std::sqrt(1 - *below.delta);
    lambda = root * root;
    formula = "(|beta - alpha| + alpha sqrt(1 - delta))^2";
  } else {
    return "nothing that the scheme behind promises bounds what is remembered: look at the norm of the state as it "
           "grows";
  }
  if (lambda < 1) return "";
  return "what is remembered may grow from step to step: lambda = " + formula + " = " + number_text(lambda, 3) +
         ", which should be below 1. Use ec with its own alpha, shrink/ before the scheme, or a finer scheme";
}

void ResidualEncoder::settle(Range range, std::span<const float> x, std::span<float> values) const {
  double* h = x.empty() ? nullptr : memory()->vectors[0].data() + range.first;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) continue;
    h[i] = beta_ * h[i] + (static_cast<double>(x[i]) - static_cast<double>(values[i]));
  }
}

}  // namespace gradcodec
