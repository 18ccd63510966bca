// Vineeth S., "Unbiased single-scale and multi-scale quantizers for distributed optimization", arXiv 2109.12497:
// QSGDMaxNormMultiScale. Scale i has s_i = 2^bits_i - 1 levels a side over the range W; a value takes the finest scale
// at which it is at most s_1 steps. The choice is made before rounding: made after it, as in the authors' program, it
// would depend on the draw and be biased by -step f (1 - f) next to the limit.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/multiscale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codec/schemes/qsgd.h"
#include "codec/schemes/shared_scale.h"
#include "codec/summable.h"

namespace gradcodec {
namespace {

constexpr size_t kMostScales = 8;

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::list,
     .name = "bits",
     .help = "of the scales, from coarse to fine, at most 8: 2^bits - 1 levels on each side of zero",
     .min = 1,
     .max = 15,
     .fallback = "4-8",
     .decoder_needs = true},
}};

struct Scales {
  std::vector<float> steps;  // falling; one 0 if all values are 0
  uint32_t max_level = 0;    // of symbols, at every scale: s_1

  // The finest at which x is at most s_1 steps; exact, 15 bits times 24.
  size_t of(float x) const {
    size_t scale = 0;
    if (steps[0] == 0) return scale;
    const auto size = std::fabs(static_cast<double>(x)), levels = static_cast<double>(max_level);
    while (scale + 1 < steps.size() && size <= levels * static_cast<double>(steps[scale + 1])) ++scale;
    return scale;
  }
};

class MultiscaleDecoder final : public Decoder, public Summable {
 public:
  MultiscaleDecoder(Scales scales, const Inputs& inputs)
      : scales_(std::move(scales)), draws_(inputs.random.draws(Purpose::rounding, inputs.stage)) {}

  static std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) {
    const std::vector<int64_t>& bits = list_of(params, "bits");
    Scales scales{{}, (uint32_t{1} << bits[0]) - 1};
    for (size_t i = 0; i < bits.size(); ++i) {
      const auto step = stored.get<float>();
      if (!is_step(step)) stored.fail("holds a step that is not 0 or from 2^-126 to 2^126");
      // Two steps may be equal only where both had to be raised to 2^-126, or are those of zeros.
      const bool falls = i == 0 || step < scales.steps[i - 1] || (step == scales.steps[i - 1] && step <= 0x1p-126F);
      if (!falls) stored.fail("holds steps that do not fall");
      scales.steps.push_back(step);
    }
    if ((scales.steps.front() == 0) != (scales.steps.back() == 0)) stored.fail("holds a step of 0 beside others");
    return std::make_unique<MultiscaleDecoder>(std::move(scales), inputs);
  }

  Bytes stored() const override {
    Bytes out;
    for (const float step : scales_.steps) put(out, step);
    return out;
  }

  std::optional<uint64_t> params_size(Range) const override { return 0; }

  StreamShapes streams(const Code&, Range range) const override {
    return {{static_cast<uint32_t>(scales_.steps.size()), range.count},
            {2 * scales_.max_level + 1, range.count, kernels::kDitherClasses}};
  }

  std::string describe() const override {
    return "steps " + number_text(static_cast<double>(scales_.steps.front()), 4) + " to " +
           number_text(static_cast<double>(scales_.steps.back()), 4);
  }

  void contexts(const Code&, size_t, Range range, std::span<uint16_t> out) const override {
    kernels::dither_contexts(draws_, range.first, out.size(), out.data());
  }

  void decode(const Code& code, Range, std::span<float> out) const override {
    const std::vector<uint16_t>&scales = code.streams[0].symbols, &symbols = code.streams[1].symbols;
    const auto zero = static_cast<int32_t>(scales_.max_level);
    const bool zeros = scales_.steps[0] == 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const int32_t q = int32_t{symbols[i]} - zero;
      if (zeros && (q != 0 || scales[i] != 0)) {
        throw Error(Exit::bad_input, "a symbol is not 0 where the step is 0");
      }
      out[i] = q == 0 ? 0 : static_cast<float>(q) * scales_.steps[scales[i]];
    }
    check_exceptions(code);
    put_back(code.exceptions, out);
  }

  void laws(const Code& code, Range, std::span<const float> target, std::span<Law> laws) const override {
    const double limit = static_cast<double>(scales_.max_level) * static_cast<double>(scales_.steps[0]);
    for (size_t i = 0; i < laws.size(); ++i) {
      laws[i] = law_of(target[i]);
      if (!(std::fabs(static_cast<double>(target[i])) <= limit)) laws[i].kind = Law::outside;
    }
    for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
  }

  const Summable* summable() const override { return this; }
  Summands summands() const override { return {.steps = scales_.steps, .max_level = scales_.max_level}; }

  // The scale of a value is its worker's own choice, so symbols of different scales cannot go into one sum.
  void add_symbols(const Code& code, int32_t weight, std::span<int32_t> sums) const override {
    const std::vector<uint16_t>&scales = code.streams[0].symbols, &symbols = code.streams[1].symbols;
    const auto zero = static_cast<int32_t>(scales_.max_level);
    for (size_t i = 0; i < symbols.size(); ++i) {
      sums[scales[i] * symbols.size() + i] += weight * (int32_t{symbols[i]} - zero);
    }
  }

  Law law_of(float value) const {
    const auto step = static_cast<double>(scales_.steps[scales_.of(value)]);
    return step == 0 ? Law::at(0) : Law::rounded_to_step(static_cast<double>(value), step);
  }

  const Scales& own_scales() const { return scales_; }
  const kernels::Draws& draws() const { return draws_; }

 private:
  void check_exceptions(const Code& code) const {
    for (const Exception& exception : code.exceptions) {
      const auto i = static_cast<size_t>(exception.index);
      const bool is_zero =
          code.streams[1].symbols[i] == scales_.max_level && code.streams[0].symbols[i] == scales_.of(0);
      require_needed(exception, is_zero);
    }
  }

  Scales scales_;
  kernels::Draws draws_;
};

class MultiscaleEncoder final : public Encoder {
 public:
  MultiscaleEncoder(const Tensor& tensor, Scales scales, bool has_exceptions, std::optional<double> omega,
                    const Inputs& inputs)
      : tensor_(tensor),
        decoder_(std::move(scales), inputs),
        has_exceptions_(has_exceptions),
        omega_(omega),
        chunks_(tensor.size(), inputs) {}

  const Decoder& decoder() const override { return decoder_; }

  // Every scale rounds all values of a block, and each value takes that of its own.
  void encode(Range range, Code& code, std::span<float> decoded) const override {
    constexpr size_t kBlock = 2048;
    const Scales& scales = decoder_.own_scales();
    const auto len = static_cast<size_t>(range.count);
    code.params.clear();
    code.exceptions.clear();
    code.streams.resize(2);
    code.streams[0].alphabet = static_cast<uint32_t>(scales.steps.size());
    code.streams[1].alphabet = 2 * scales.max_level + 1;
    for (Stream& stream : code.streams) stream.symbols.resize(len);
    const std::span<const float> x = read(range, code);
    std::array<uint16_t, kBlock> rounded;
    std::array<float, kBlock> limited;
    for (size_t at = 0; at < len; at += kBlock) {
      const size_t count = std::min(kBlock, len - at);
      uint16_t* const of = code.streams[0].symbols.data() + at;
      uint16_t* const symbols = code.streams[1].symbols.data() + at;
      for (size_t i = 0; i < count; ++i) of[i] = static_cast<uint16_t>(scales.of(x[at + i]));
      for (size_t scale = 0; scale < scales.steps.size(); ++scale) {
        // What is beyond a scale is 0 to it.
        for (size_t i = 0; i < count; ++i) limited[i] = of[i] < scale ? 0 : x[at + i];
        kernels::half_dither_encode(limited.data(), count, decoder_.draws(), range.first + at,
                                    {scales.steps[scale], scales.max_level}, rounded.data(), nullptr);
        for (size_t i = 0; i < count; ++i) symbols[i] = of[i] == scale ? rounded[i] : symbols[i];
      }
    }
    if (!decoded.empty()) decoder_.decode(code, range, decoded);
  }

  Promise promise() const override {
    Promise promise;
    promise.unbiased = promise.independent = true;
    double variance = 0, largest = 0;
    Code code;
    for (uint64_t i = 0; i < chunks_.count(); ++i) {
      for (const float value : read(chunks_[i], code)) {
        const Law law = decoder_.law_of(value);
        if (law.kind != Law::two) continue;
        variance += law.variance_of_two();
        largest = std::max(largest, law.hi - law.lo);
      }
    }
    promise.variance = variance;
    promise.max_error = largest;
    if (decoder_.own_scales().steps.back() > 0x1p-126F) promise.omega = omega_;
    promise.delta = delta_of(promise.omega);
    return promise;
  }

 private:
  std::span<const float> read(Range range, Code& code) const {
    return read_regular(tensor_, range, has_exceptions_, code);
  }

  const Tensor& tensor_;
  MultiscaleDecoder decoder_;
  bool has_exceptions_;
  std::optional<double> omega_;
  Chunks chunks_;
};

class Multiscale final : public Scheme {
 public:
  std::string_view name() const override { return "multiscale"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "maxnorm, with a finer step for values that are small enough"; }
  std::string_view promises() const override {
    return "unbiased; variance step^2 f (1 - f) an element exactly, of the step that the element has; never more than\n"
           "maxnorm of the first bits; symbols of one scale can be summed";
  }
  std::string_view source() const override { return "Vineeth S., arXiv 2109.12497 (QSGDMaxNormMultiScale)"; }

  unsigned work_per_value(const Params&) const override { return 4; }  // which scale each value has

  bool draws() const override { return true; }
  bool takes_shared_scale() const override { return true; }
  bool adds_up(const Params&) const override { return true; }

  void check(const Params& params, bool) const override {
    const size_t scales = list_of(params, "bits").size();
    if (scales < 2 || scales > kMostScales) {
      throw Error(Exit::usage, "'bits' takes 2 to 8 numbers, for example bits=4-8");
    }
  }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const std::vector<int64_t>& bits = list_of(params, "bits");
    const Extent extent = scan_extent(tensor, inputs);
    const float range = scale_of(extent, inputs);
    Scales scales{{}, (uint32_t{1} << bits[0]) - 1};
    for (const int64_t b : bits) scales.steps.push_back(step_for_range(range, (uint32_t{1} << b) - 1));
    std::optional<double> omega;
    if (!inputs.shared_scale) {
      omega = qsgd_omega(std::max<uint64_t>(1, tensor.size()), scales.max_level, Norm::max) + 0x1p-20;
    }
    return std::make_unique<MultiscaleEncoder>(tensor, std::move(scales), extent.irregular > 0, omega, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return MultiscaleDecoder::restore(params, stored, inputs);
  }
};

}  // namespace

const Scheme& multiscale_scheme() {
  static const Multiscale scheme;
  return scheme;
}

}  // namespace gradcodec
