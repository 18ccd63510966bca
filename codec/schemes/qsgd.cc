// Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: Communication-efficient SGD via gradient quantization and encoding",
// arXiv 1610.02132, sections 3.1 and 4: a bucket's values are rounded at random to multiples of norm / s.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/qsgd.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 3> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "s",
     .help = "levels on each side of zero",
     .min = 1,
     .max = kMaxLevel,
     .required = true,
     .decoder_needs = true,
     .example = "4"},
    {.kind = ParamSpec::choice,
     .name = "norm",
     .help = "what the step is norm / s of",
     .choices = "l2|max",
     .fallback = "l2"},
    {.kind = ParamSpec::integer,
     .name = "bucket",
     .help = "elements that share a step, 0 being the whole tensor; if not given, 512 for l2 and 0 for max",
     .max = static_cast<double>(kMaxBucket),
     .decoder_needs = true,
     .example = "512"},
}};

// At least ||x|| / s, and s steps reach every value.
float step_of(double squares, float max, uint32_t s) {
  return step_at_least(std::sqrt(squares) / static_cast<double>(s), max, s);
}

class Qsgd final : public Scheme {
 public:
  std::string_view name() const override { return "qsgd"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "stochastic rounding, s levels a side, the step from a norm"; }
  std::string_view promises() const override {
    return "unbiased; each value rounded to one of its two neighbours among the multiples of norm / s, independently;\n"
           "variance step^2 f (1 - f) an element exactly, f the fraction of x / step;\n"
           "in a bucket of d values at most min(d/s^2, sqrt(d)/s) ||x||^2 with l2, d/(4 s^2) ||x||^2 with max";
  }
  std::string_view source() const override { return "Alistarh et al., arXiv 1610.02132, sections 3.1 and 4"; }

  bool draws() const override { return true; }

  void complete(Params& params) const override {
    const int64_t usual = choice_of(params, "norm") == "l2" ? 512 : 0;
    params.emplace("bucket", usual);
  }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const Norm norm = choice_of(params, "norm") == "l2" ? Norm::l2 : Norm::max;
    return prepare_qsgd(tensor, layout_of(params), norm, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return GridDecoder::restore(layout_of(params), stored, inputs);
  }

 private:
  static GridLayout layout_of(const Params& params) {
    GridLayout layout;
    layout.bucket = static_cast<uint64_t>(integer_of(params, "bucket"));
    layout.max_level = static_cast<uint32_t>(integer_of(params, "s"));
    layout.rounding = Rounding::half;
    return layout;
  }
};

}  // namespace

std::unique_ptr<Encoder> prepare_qsgd(const Tensor& tensor, GridLayout layout, Norm norm, const Inputs& inputs) {
  const uint32_t s = layout.max_level;
  const bool l2 = norm == Norm::l2;
  const Energy energy = l2 && layout.bucket == 0 ? scan_energy(tensor, inputs) : Energy{scan_extent(tensor, inputs)};
  if (layout.bucket == 0) {
    layout.step = l2 ? step_of(energy.squares, energy.extent.max, s) : step_for_range(energy.extent.max, s);
  }
  if (layout.bucket == 0 && layout.step == 0 && layout.stores_level) layout.max_level = 0;
  GridChoice choice;
  choice.exceptions = energy.extent.irregular > 0;
  choice.rule = [l2, s](std::span<const float> x) {
    const float max = extent_of(x).max;
    return l2 ? step_of(squares_of(x), max, s) : step_for_range(max, s);
  };
  const uint64_t d = std::max<uint64_t>(1, layout.bucket == 0 ? tensor.size() : layout.bucket);
  choice.omega = qsgd_omega(d, s, norm) * (1 + 0x1p-20) + 0x1p-20;  // the step is rounded up
  return std::make_unique<GridEncoder>(tensor, layout, inputs, std::move(choice));
}

double qsgd_omega(uint64_t d, uint32_t s, Norm norm) {
  const auto values = static_cast<double>(d), levels = static_cast<double>(s);
  if (norm == Norm::max) return s == 1 ? (std::sqrt(values) - 1) / 2 : values / (4 * levels * levels);
  const double a = std::sqrt(values) / levels;
  if (a * a <= 4.5) return a * a / 4;
  return a <= 2.25 ? 1.0 / 8 + 2 * a * a / 9 : a - 1;
}

const Scheme& qsgd_scheme() {
  static const Qsgd scheme;
  return scheme;
}

}  // namespace gradcodec
