// The quantizer to multiples of a step, which `dqsg`, `dither`, `qsgd` and others are presets of: q = round(x / step +
// u), u uniform on (-1/2, 1/2) and known to both sides through the seed.
//
// Subtractive: decoded (q - u) step. The error is uniform on (-step/2, step/2) and independent of x (Schuchman 1964;
// Abdi and Fekri, "Quantized compressive sampling of stochastic gradients", AAAI 2020, supplement section 1): unbiased,
// of variance step^2 / 12 exactly. Half-dithered: decoded q step, which is stochastic rounding (the same, lemma; QSGD,
// arXiv 1610.02132, section 3.1): unbiased, of variance step^2 f (1 - f) where x / step has the fraction f. Nearest: u
// is 0; biased, each error at most step / 2.
//
// No symbol overloads: the encoder chooses M with M step >= |x|, or sets x aside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "codec/model/class_steps.h"
#include "codec/model/line_scales.h"
#include "codec/scan.h"
#include "codec/scheme.h"
#include "codec/summable.h"

namespace gradcodec {

inline constexpr uint32_t kMaxLevel = 32767;  // largest |q|: 65,535 levels
inline constexpr uint64_t kMaxBucket = uint64_t{1} << 22;

inline constexpr ParamSpec kBucketParam = {.kind = ParamSpec::integer,
                                           .name = "bucket",
                                           .help = "elements that share a step; 0: the whole tensor",
                                           .min = 0,
                                           .max = static_cast<double>(kMaxBucket),
                                           .fallback = "0",
                                           .decoder_needs = true};

enum class Rounding : uint8_t { subtractive, half, nearest };

// How both sides lay a tensor out.
struct GridLayout {
  uint64_t bucket = 0;         // elements a step; 0: one step for the tensor. Buckets restart in each chunk
  uint32_t max_level = 0;      // M: symbols are q + M, q from -M to M
  bool stores_layout = false;  // bucket and rounding are stored parameters too
  bool stores_level = false;   // M is a stored parameter, else it follows from the scheme's text
  bool reaches_all = false;    // the step is chosen for the range, though M is stored: no regular value is set aside
  float step = 0;              // of the whole tensor, if bucket is 0
  Rounding rounding = Rounding::subtractive;
  bool by_class = false;  // steps follow the scale of rows and columns, and `step` is that of large scales; no bucket
  std::shared_ptr<const LineScales> scales = {};  // for steps by class, or coders that take them; null: none
};

// A step of a bucket from its values, irregular ones replaced by 0; 0 only if all are 0.
using StepRule = std::function<float(std::span<const float> values)>;

// Whether a stored step may be that: +0, or from 2^-126 to 2^126.
bool is_step(float step);

// Rounds a positive step to the float32 range that quantizers use, [2^-126, 2^126].
float clamp_step(double step);

// The smallest usable float32 step with max_level * step >= max; 0 if max is 0. Rounding up, not to nearest: else the
// largest value would lie beyond the last level and be clamped there now and then, a bias of up to M 2^-24 steps.
float step_for_range(double max, uint32_t max_level);

// The smallest usable float32 step that is at least `step` and has max_level * step >= max; 0 if max is 0.
float step_at_least(double step, float max, uint32_t max_level);

// The step under which subtractive dither of n values, `squares` their sum of squares, has an error of nmse times that:
// rms sqrt(12 nmse), float64 but for the last rounding.
float step_for_nmse(double squares, uint64_t n, double nmse);

// The smallest M with M * step >= magnitude, at most kMaxLevel; 0 if step is 0.
uint32_t level_for(float magnitude, float step);

// `clip` standard deviations of the regular values, for GridChoice::clip; infinity if they do not deviate, which leaves
// nothing to call an outlier. Reads the tensor twice.
float clip_limit(double clip, const Tensor& tensor, const Inputs& inputs, const Extent& extent);

// What the values need: the largest level among those that are not set aside, and whether any is.
struct Reach {
  uint32_t max_level = 0;
  bool exceeded = false;
};

// One pass. With a step a bucket it is `rule` that says them, else layout.step is the tensor's.
Reach reach_of(const Tensor& tensor, const Inputs& inputs, const GridLayout& layout, const StepRule& rule);

// The same where steps go by class; layout.scales and layout.step are set.
Reach reach_by_class(const Tensor& tensor, const Inputs& inputs, const GridLayout& layout);

class GridDecoder final : public Decoder, public Summable {
 public:
  GridDecoder(const GridLayout& layout, const Inputs& inputs);

  // Takes bucket and rounding, step (if bucket is 0) and M, those that are stored, from `stored` into the layout given.
  static std::unique_ptr<Decoder> restore(GridLayout layout, ByteReader& stored, const Inputs& inputs);

  Bytes stored() const override;
  std::optional<uint64_t> params_size(Range range) const override;
  StreamShapes streams(const Code& code, Range range) const override;
  std::string describe() const override;
  void contexts(const Code& code, size_t stream, Range range, std::span<uint16_t> out) const override;
  void scales(const Code& code, size_t stream, Range range, std::span<uint8_t> out) const override;
  void decode(const Code& code, Range range, std::span<float> out) const override;
  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override;

  // Multiples of one step for the whole tensor, with no dither to subtract.
  const Summable* summable() const override {
    return layout_.bucket == 0 && layout_.rounding != Rounding::subtractive ? this : nullptr;
  }
  Summands summands() const override { return {.steps = {layout_.step}, .max_level = layout_.max_level}; }
  void add_symbols(const Code& code, int32_t weight, std::span<int32_t> sums) const override;

  Law law_of(float target, double step) const;  // of a value that is no exception

  // The step of an element of the chunk `range`, whose buckets have `run` elements.
  float step_of(const Code& code, Range range, uint64_t run, uint64_t index) const;
  bool by_class() const { return layout_.by_class && layout_.step > 0; }

  // Calls visit(at, steps) for pieces of a chunk, in order, whose elements from `at` on have these steps, where steps
  // go by class.
  void for_steps(Range range, const std::function<void(size_t at, std::span<const float> steps)>& visit) const;

  const GridLayout& layout() const { return layout_; }
  const kernels::Draws& draws() const { return draws_; }

 private:
  void check_exceptions(const Code& code, Range range, uint64_t run) const;
  void decode_by_class(const Code& code, Range range, std::span<float> out) const;

  GridLayout layout_;
  kernels::Draws draws_;
  ClassSteps steps_ = {};
};

// The values of a tensor, limited to [-clip, clip]; NaN and infinities are as they were.
class Clipped final : public Tensor {
 public:
  Clipped(const Tensor& tensor, float clip) : tensor_(tensor), clip_(clip) {}
  uint64_t size() const override { return tensor_.size(); }
  std::span<const uint64_t> shape() const override { return tensor_.shape(); }
  std::span<const float> read(Range range, std::span<float> scratch) const override;

 private:
  const Tensor& tensor_;
  float clip_;
};

// What an encoder is told beside the layout.
struct GridChoice {
  float clip = std::numeric_limits<float>::infinity();  // values are limited to [-clip, clip] first
  bool exceptions = false;                              // some value of the tensor must be set aside
  StepRule rule = {};                                   // of a bucket, if the layout has buckets
  std::optional<double> omega = {};                     // kept unless a step had to be raised to 2^-126
};

class GridEncoder final : public Encoder {
 public:
  GridEncoder(const Tensor& tensor, const GridLayout& layout, const Inputs& inputs, GridChoice choice);

  const Decoder& decoder() const override { return decoder_; }
  void encode(Range range, Code& code, std::span<float> decoded) const override;
  Promise promise() const override;

 private:
  bool clips() const { return choice_.clip < std::numeric_limits<float>::infinity(); }
  std::span<const float> read(Range range, Code& code) const;
  double variance_of(std::span<const float> values, double step) const;
  Promise declared(double variance, float largest, bool raised) const;
  void set_aside_from(Code& code, size_t at, size_t count, float step) const;
  void encode_by_class(std::span<const float> x, Range range, Code& code, std::span<float> decoded) const;
  Promise promise_by_class() const;
  void encode_run(std::span<const float> x, Range range, float step, Code& code, size_t at,
                  std::span<float> decoded) const;

  const Tensor& tensor_;
  Clipped clipped_;
  GridDecoder decoder_;
  GridChoice choice_;
  Chunks chunks_;
};

}  // namespace gradcodec
