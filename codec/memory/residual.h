// Memory of what was not sent: u = x + alpha h is coded, and h' = beta h + (x - c), c being what the decoder makes of
// the message. With alpha = beta = 1 it is plain error feedback, h' = u - c: what is sent and what is remembered are
// together what was to be sent, sum c = sum x - h (Seide et al. 2014; Stich et al., arXiv 1809.07599; Karimireddy et
// al., arXiv 1901.09847). Else ECQ-SGD (Wu, Huang, Huang, Zhang, "Error compensated quantized SGD", arXiv 1806.08054,
// section 3): the raw gradient minus what was decoded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/memory/remembering.h"

namespace gradcodec {

class ResidualEncoder final : public RememberingEncoder {
 public:
  // Throws Error(usage) over a scheme whose decoded values the encoder does not know; else what prepare of the scheme
  // below throws. `name`: of the scheme, for messages.
  ResidualEncoder(const Tensor& tensor, const Inputs& inputs, double alpha, double beta, std::string_view name);

  // Says so if nothing bounds h: without new values E ||h'||^2 <= lambda ||h||^2, lambda = (beta - alpha)^2 + alpha^2
  // gamma where the error's expected square is at most gamma ||u||^2 (derived, spec/schemes/ec.md).
  std::string warning() const override;

 private:
  void settle(Range range, std::span<const float> x, std::span<float> values) const override;

  double alpha_, beta_;
};

}  // namespace gradcodec
