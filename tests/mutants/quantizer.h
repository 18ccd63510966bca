// A max-norm quantizer with a dither, whose parts can be replaced by broken ones. Whatever is replaced, it declares the
// law and the promise of the honest scheme.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codec/scheme.h"

namespace gradcodec {

// The two honest schemes, q = round(x / step + u) with M step = max |x|:
//   half         decodes q step: two-point rounding. QSGD with the max norm (Alistarh et al., arXiv 1610.02132)
//   subtractive  decodes (q - u) step: `dqsg`, to the bit
enum class Dither : uint8_t { half, subtractive };

// How one part of the quantizer is broken; what is null or at its default is honest.
struct Mutation {
  using Rounding = int32_t (*)(float x, float v, float step, float max_level);  // gives q, |q| <= max_level
  using Restoring = float (*)(int32_t q, float v, float step);                  // gives the decoded value

  Rounding round = nullptr;
  Restoring restore = nullptr;
  float (*step)(float step) = nullptr;                       // what is stored for the step
  bool rounds_to_stored_step = true;                         // else the encoder rounds to the step before it is stored
  std::function<kernels::Draws(kernels::Draws)> draws = {};  // which stream of random words is used
  uint64_t (*coordinate)(uint64_t index) = nullptr;          // which word of it element `index` takes
  float (*draw)(uint32_t word, uint64_t index) = nullptr;    // v of that word
  double kept = 1;                                           // share of the largest magnitudes; the others become 0
  uint16_t attempts = 1;                                     // encodings made, of which the shortest is stored
  bool misreports = false;           // the encoder's word for the chunk's last value is one float off
  std::optional<double> omega = {};  // promised instead of the variance and the omega that hold
};

// Parameters as dqsg's: levels (odd, 2M+1) and bucket. Values that cannot be quantized become exceptions.
class Quantizer final : public Scheme {
 public:
  // `name` outlives the scheme.
  explicit Quantizer(std::string_view name, Dither dither, const Mutation& mutation = {});

  std::string_view name() const override { return name_; }
  std::span<const ParamSpec> params() const override;
  std::string_view summary() const override { return "for tests: a quantizer, honest or broken"; }
  std::string_view promises() const override { return "what the honest quantizer promises"; }
  std::string_view source() const override { return "arXiv 1610.02132, section 3.1; arXiv 1904.01197"; }
  bool draws() const override { return true; }
  void check(const Params& params, bool encoding) const override;
  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override;
  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override;

 private:
  std::string_view name_;
  Dither dither_;
  Mutation mutation_;
};

// levels=`levels`,bucket=`bucket`.
Params quantizer_params(int64_t levels, int64_t bucket = 0);

}  // namespace gradcodec
