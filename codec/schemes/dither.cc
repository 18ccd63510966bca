// The quantizer of dqsg with step = rms sqrt(12 T), so that E ||x' - x||^2 = T ||x||^2, or with a step given. The
// alphabet is as large as max |x| / step needs; values beyond 32,767 steps are set aside.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/dither.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "codec/schemes/grid_quantizer.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 4> kParams = {{
    {.kind = ParamSpec::real,
     .name = "nmse",
     .help = "expected squared error over squared norm, of each tensor or bucket",
     .min = 1e-8,
     .max = 1e4,
     .example = "0.1"},
    {.kind = ParamSpec::real,
     .name = "step",
     .help = "the step itself, instead of nmse: each error is at most half of it, but for float32's rounding",
     .min = 1e-37,
     .max = 1e37},
    kBucketParam,
    {.kind = ParamSpec::choice,
     .name = "steps",
     .help =
         "one step for the tensor, or steps that follow the scale of rows and columns: often fewer bits for that nmse",
     .choices = "one|class",
     .fallback = "one",
     .decoder_needs = true},
}};

uint64_t bucket_of(const Params& params) { return static_cast<uint64_t>(integer_of(params, "bucket")); }

bool by_class(const Params& params) { return choice_of(params, "steps") == "class"; }

class Dither final : public Scheme {
 public:
  std::string_view name() const override { return "dither"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "subtractive dither, its step chosen for the error"; }
  std::string_view promises() const override {
    return "unbiased; each error uniform on (-step/2, step/2) and independent of the value, step = rms sqrt(12 nmse);\n"
           "E||x'-x||^2 = nmse ||x||^2 for each tensor or bucket (less where values are\n"
           "kept exactly, more where a step would be below 2^-126);\n"
           "steps=class: by class, each error uniform on its own step";
  }
  std::string_view source() const override { return "Schuchman 1964; the quantizer is that of dqsg"; }

  bool draws() const override { return true; }

  void check(const Params& params, bool encoding) const override {
    const bool nmse = params.count("nmse") != 0;
    const bool step = params.count("step") != 0;
    if (encoding && nmse == step) throw Error(Exit::usage, "give either 'nmse' or 'step'");
    if (step && bucket_of(params) != 0) throw Error(Exit::usage, "'bucket' means nothing where 'step' is given");
    if (!by_class(params)) return;
    if (bucket_of(params) != 0) throw Error(Exit::usage, "'bucket' means nothing with 'steps=class'");
    if (encoding && !nmse) throw Error(Exit::usage, "'steps=class' needs 'nmse': the steps follow from it");
  }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    GridLayout layout;
    layout.bucket = bucket_of(params);
    layout.stores_level = true;
    const bool relative = params.count("nmse") != 0;
    const bool from_energy = relative && (layout.bucket == 0 || inputs.whole_squares);
    const Energy energy = from_energy ? scan_energy(tensor, inputs) : Energy{scan_extent(tensor, inputs)};
    // Of the tensor that is given, where the text's nmse is of another.
    const double nmse = relative ? inputs.nmse_for(real_of(params, "nmse"), energy.squares) : 0;
    const Extent& extent = energy.extent;
    StepRule rule;
    Reach reach;
    layout.by_class = by_class(params);
    if (layout.by_class && energy.squares > 0) {
      LineScales scales = LineScales::measure(tensor, inputs);
      layout.step = fit_class_steps(scales, energy.squares, nmse);
      layout.scales = std::make_shared<const LineScales>(std::move(scales));
      reach = reach_by_class(tensor, inputs, layout);
    } else if (layout.bucket == 0) {
      layout.step = step_of(params, nmse, energy, tensor.size());
      reach.max_level = level_for(extent.max, layout.step);
    } else {
      rule = [nmse](std::span<const float> x) { return step_for_nmse(squares_of(x), x.size(), nmse); };
    }
    // One more pass where each bucket has its own step, or where the largest value is one to set aside.
    if (!layout.by_class && (layout.bucket != 0 || reach.max_level == kMaxLevel))
      reach = reach_of(tensor, inputs, layout, rule);
    layout.max_level = reach.max_level;
    GridChoice choice;
    choice.exceptions = extent.irregular > 0 || reach.exceeded;
    choice.rule = std::move(rule);
    // Steps are rounded to float32, by class twice; sums to float64.
    if (relative) choice.omega = nmse * (1 + (layout.by_class ? 0x1p-21 : 0x1p-22));
    return std::make_unique<GridEncoder>(tensor, layout, inputs, std::move(choice));
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    GridLayout layout;
    layout.bucket = bucket_of(params);
    layout.stores_level = true;
    layout.by_class = by_class(params);
    return GridDecoder::restore(layout, stored, inputs);
  }

 private:
  static float step_of(const Params& params, double nmse, const Energy& energy, uint64_t n) {
    if (const auto found = params.find("step"); found != params.end()) {
      return energy.extent.max == 0 ? 0 : clamp_step(std::get<double>(found->second));
    }
    return step_for_nmse(energy.squares, n, nmse);
  }
};

}  // namespace

const Scheme& dither_scheme() {
  static const Dither scheme;
  return scheme;
}

}  // namespace gradcodec
