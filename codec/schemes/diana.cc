// DIANA (Mishchenko, Gorbunov, Takac, Richtarik, "Distributed learning with compressed gradient differences", arXiv
// 1901.09269): both sides remember h; m = Q(x - h) is sent, decoded is h + m with the old h, and h' = h + alpha m.
// VR-DIANA (Horvath et al., arXiv 1904.05115) is the same for the codec: only x is made otherwise.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/diana.h"

#include <array>
#include <cmath>

#include "codec/memory/remembering.h"
#include "codec/number_text.h"
#include "codec/through.h"

namespace gradcodec {
namespace {

constexpr std::array<std::string_view, 1> kVectors = {"h"};

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::real,
     .name = "alpha",
     .help = "how much of each message h takes [1 / (1 + omega of the scheme behind), 0.5 if it has none]",
     .min = 0x1p-64,
     .max = 1},
}};

// h + m, with the old h; and h' if the memory updates. Values that are not finite are what they are, and no news of h.
void settle_on(const Memory* memory, double alpha, Range range, std::span<float> values) {
  if (memory == nullptr) return;
  double* h = memory->vectors[0].data() + range.first;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const auto m = static_cast<double>(values[i]);
    values[i] = static_cast<float>(h[i] + m);
    if (memory->updates) h[i] += alpha * m;
  }
}

// As the decoder of m, but for what it stores and what it decodes to.
class DianaDecoder final : public ThroughDecoder {
 public:
  DianaDecoder(const Decoder& behind, double alpha, const Memory* memory)
      : ThroughDecoder(behind), alpha_(alpha), memory_(memory) {}
  DianaDecoder(std::unique_ptr<Decoder> behind, double alpha, const Memory* memory)
      : ThroughDecoder(std::move(behind)), alpha_(alpha), memory_(memory) {}

  Bytes stored() const override {
    Bytes out;
    put(out, alpha_);
    put_bytes(out, behind().stored());
    return out;
  }
  std::string describe() const override { return "alpha " + number_text(alpha_, 3) + ", " + behind().describe(); }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    behind().decode(code, range, out);
    settle_on(memory_, alpha_, range, out);
  }

 private:
  double alpha_;
  const Memory* memory_;
};

class DianaEncoder final : public RememberingEncoder {
 public:
  DianaEncoder(const Tensor& tensor, const Params& params, const Inputs& inputs)
      : RememberingEncoder(tensor, inputs, -1) {
    check_known(inner(), "diana");
    const Promise below = inner().promise();
    if (!below.unbiased) throw Error(Exit::usage, "'diana' stands over unbiased schemes; the one behind it is not");
    most_ = below.omega ? std::optional(1 / (1 + *below.omega)) : std::nullopt;
    // Without an omega errors are bounded in themselves, and any alpha brings h as near to x as they are large.
    alpha_ = params.count("alpha") == 0 ? most_.value_or(0.5) : real_of(params, "alpha");
    decoder_ = std::make_unique<DianaDecoder>(inner().decoder(), alpha_, memory());
  }

  const Decoder& decoder() const override { return *decoder_; }

  std::string warning() const override {
    if (!most_ || alpha_ <= *most_) return RememberingEncoder::warning();
    return "alpha " + number_text(alpha_, 3) + " is more than 1 / (1 + omega) = " + number_text(*most_, 3) +
           ": h need not come nearer to x";
  }

  // Those of the scheme below, for x - h.
  Promise promise() const override { return inner().promise(); }

 private:
  void settle(Range range, std::span<const float>, std::span<float> values) const override {
    settle_on(memory(), alpha_, range, values);
  }

  std::optional<double> most_;
  double alpha_ = 0;
  std::unique_ptr<DianaDecoder> decoder_;
};

class Diana final : public Scheme {
 public:
  std::string_view name() const override { return "diana"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "differences to what both sides remember: diana/randk:k=10%"; }
  std::string_view promises() const override {
    return "unbiased, its variance that of the scheme behind for x - h: it vanishes as h comes to x, which it does on\n"
           "average, E ||h' - x||^2 <= (1 - alpha) ||h - x||^2 for alpha up to 1 / (1 + omega)";
  }
  std::string_view source() const override {
    return "Mishchenko et al., arXiv 1901.09269; Horvath et al., arXiv 1904.05115 (VR-DIANA)";
  }
  bool draws() const override { return false; }
  Inner inner() const override { return Inner::required; }
  std::span<const std::string_view> vectors() const override { return kVectors; }
  bool decoder_remembers() const override { return true; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    return std::make_unique<DianaEncoder>(tensor, params, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    const auto alpha = stored.get<double>();
    if (!(alpha >= 0x1p-64 && alpha <= 1)) stored.fail("holds an alpha that is not from 2^-64 to 1");
    return std::make_unique<DianaDecoder>(restore_known(stored, inputs), alpha, inputs.memory);
  }
};

}  // namespace

const Scheme& diana_scheme() {
  static const Diana scheme;
  return scheme;
}

}  // namespace gradcodec
