// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/grid_quantizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/model/rows.h"
#include "codec/number_text.h"

namespace gradcodec {
namespace {

constexpr float kMinStep = 0x1p-126F;
constexpr float kMaxStep = 0x1p126F;

uint64_t bucket_count(uint64_t len, uint64_t bucket) { return (len + bucket - 1) / bucket; }

float step_at(const Bytes& params, uint64_t bucket) {
  float step;
  std::memcpy(&step, params.data() + bucket * sizeof(float), sizeof(float));
  return step;
}

// Values beyond this are set aside. Exact: 15 bits times 24.
double limit_of(float step) { return static_cast<double>(kMaxLevel) * static_cast<double>(step); }

// symbols[i] = round(x / step) + M, halves away from 0. The quotient of two float32 is a half in float64 only if it is
// one: its distance to the next is 2^-25 or more.
void nearest_encode(std::span<const float> x, kernels::Lattice lattice, uint16_t* symbols, float* decoded) {
  const auto step = static_cast<double>(lattice.step), most = static_cast<double>(lattice.max_level);
  for (size_t i = 0; i < x.size(); ++i) {
    const double y = lattice.step == 0 ? 0 : static_cast<double>(x[i]) / step;
    const double size = std::min(std::floor(std::fabs(y) + 0.5), most);
    const auto q = static_cast<int32_t>(y < 0 ? -size : size);
    symbols[i] = static_cast<uint16_t>(q + static_cast<int32_t>(lattice.max_level));
  }
  if (decoded != nullptr) kernels::half_dither_decode(symbols, x.size(), lattice, decoded);
}

// Whether scales are stored: for steps that follow them or a coder that takes them, where there is one step, and not
// every value is 0.
bool stores_scales(const GridLayout& layout, const Inputs& inputs) {
  return (inputs.scales || layout.by_class) && layout.bucket == 0 && layout.step > 0 &&
         layout.rounding != Rounding::nearest;
}

GridLayout with_scales(GridLayout layout, const Tensor& tensor, const Inputs& inputs) {
  if (!stores_scales(layout, inputs) || layout.scales) return layout;
  LineScales scales = LineScales::measure(tensor, inputs);
  scales.set_step(static_cast<double>(layout.step));
  if (!scales.lines_pay()) {
    scales.forget_lines();
    scales.set_step(static_cast<double>(layout.step));
  }
  layout.scales = std::make_shared<const LineScales>(std::move(scales));
  return layout;
}

}  // namespace

bool is_step(float step) { return step == 0 ? !std::signbit(step) : step >= kMinStep && step <= kMaxStep; }

float clamp_step(double step) {
  return static_cast<float>(std::clamp(step, static_cast<double>(kMinStep), static_cast<double>(kMaxStep)));
}

float step_for_range(double max, uint32_t max_level) {
  if (max == 0) return 0;
  const auto levels = static_cast<double>(max_level);
  float step = clamp_step(max / levels);
  if (levels * static_cast<double>(step) < max && step < kMaxStep) {
    step = std::bit_cast<float>(std::bit_cast<uint32_t>(step) + 1);
  }
  return step;
}

float step_at_least(double step, float max, uint32_t max_level) {
  if (max == 0) return 0;
  float rounded = clamp_step(step);
  if (static_cast<double>(rounded) < step && rounded < kMaxStep) {
    rounded = std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) + 1);
  }
  return std::max(rounded, step_for_range(max, max_level));
}

float clip_limit(double clip, const Tensor& tensor, const Inputs& inputs, const Extent& extent) {
  const double limit = clip * scan_deviation(tensor, inputs, extent.irregular);
  const auto largest = static_cast<double>(std::numeric_limits<float>::max());
  const auto rounded = static_cast<float>(std::min(limit, largest));
  return rounded > 0 ? rounded : std::numeric_limits<float>::infinity();
}

Reach reach_of(const Tensor& tensor, const Inputs& inputs, const GridLayout& layout, const StepRule& rule) {
  Reach reach;
  const uint64_t run = layout.bucket == 0 ? kMaxBucket : layout.bucket;
  // `max`: of the values' regular magnitudes; irregular values are 0 to the rule, as in encode.
  const auto add = [](std::span<const float> values, float max, float step, Reach& to) {
    const double limit = limit_of(step);
    if (static_cast<double>(max) > limit) {
      to.exceeded = true;
      max = 0;
      for (const float value : values) {
        if (fits(std::bit_cast<uint32_t>(value), limit)) max = std::max(max, std::fabs(value));
      }
    }
    to.max_level = std::max(to.max_level, level_for(max, step));
  };
  const auto look = [&](Range, std::span<const float> x) {
    Reach chunk;
    for (size_t at = 0; at < x.size(); at += run) {
      const std::span<const float> values = x.subspan(at, std::min<size_t>(run, x.size() - at));
      add(values, extent_of(values).max, layout.bucket == 0 ? layout.step : rule(values), chunk);
    }
    return chunk;
  };
  scan_chunks(tensor, inputs, look, [&](const Reach& chunk) {
    reach.max_level = std::max(reach.max_level, chunk.max_level);
    reach.exceeded |= chunk.exceeded;
  });
  return reach;
}

Reach reach_by_class(const Tensor& tensor, const Inputs& inputs, const GridLayout& layout) {
  const GridDecoder decoder(layout, inputs);
  const auto look = [&](Range range, std::span<const float> x) {
    Reach chunk;
    double most = 0;
    decoder.for_steps(range, [&](size_t at, std::span<const float> steps) {
      for (size_t i = 0; i < steps.size(); ++i) {
        const double size = std::fabs(static_cast<double>(x[at + i])), step = static_cast<double>(steps[i]);
        if (step == 0 || !(size <= 0x1p126)) continue;
        const double ratio = size / step;  // an integer only if it is one, as in level_for
        if (ratio > kMaxLevel) chunk.exceeded = true;
        if (ratio <= kMaxLevel) most = std::max(most, ratio);
      }
    });
    chunk.max_level = static_cast<uint32_t>(std::ceil(most));
    return chunk;
  };
  Reach reach;
  scan_chunks(tensor, inputs, look, [&](const Reach& chunk) {
    reach.max_level = std::max(reach.max_level, chunk.max_level);
    reach.exceeded |= chunk.exceeded;
  });
  return reach;
}

float step_for_nmse(double squares, uint64_t n, double nmse) {
  if (squares == 0) return 0;
  return clamp_step(std::sqrt(12.0 * nmse * (squares / static_cast<double>(n))));
}

uint32_t level_for(float magnitude, float step) {
  if (step == 0) return 0;
  // The quotient of two float32 is an integer in float64 only if it is one: its distance to the next is 2^-24 or more.
  const double levels = std::ceil(static_cast<double>(magnitude) / static_cast<double>(step));
  return static_cast<uint32_t>(std::min(levels, static_cast<double>(kMaxLevel)));
}

GridDecoder::GridDecoder(const GridLayout& layout, const Inputs& inputs)
    : layout_(layout), draws_(inputs.random.draws(Purpose::rounding, inputs.stage)) {
  if (by_class()) steps_ = class_steps(layout_.step, layout_.scales->base());
}

std::unique_ptr<Decoder> GridDecoder::restore(GridLayout layout, ByteReader& stored, const Inputs& inputs) {
  if (layout.stores_layout) {
    const auto rounding = stored.get<uint8_t>();
    if (rounding > 1) stored.fail("says rounding " + std::to_string(rounding) + ", which is neither 0 nor 1");
    layout.rounding = rounding == 0 ? Rounding::subtractive : Rounding::half;
    layout.bucket = stored.get_varint();
    if (layout.bucket > kMaxBucket) stored.fail("says buckets of more than 4194304 elements");
    if (layout.bucket != 0 && rounding != 0) stored.fail("says buckets beside rounding 1");
  }
  if (layout.bucket == 0) {
    layout.step = stored.get<float>();
    if (!is_step(layout.step)) stored.fail("holds a step that is not 0 or from 2^-126 to 2^126");
  }
  if (layout.stores_level) {
    const uint64_t level = stored.get_varint();
    if (level > kMaxLevel) stored.fail("says M = " + std::to_string(level) + ", more than 32767");
    if (layout.bucket == 0 && layout.step == 0 && level != 0) stored.fail("says M > 0 beside a step of 0");
    layout.max_level = static_cast<uint32_t>(level);
  }
  if (stores_scales(layout, inputs))
    layout.scales = std::make_shared<const LineScales>(LineScales::restore(stored, inputs));
  return std::make_unique<GridDecoder>(layout, inputs);
}

Bytes GridDecoder::stored() const {
  Bytes out;
  if (layout_.stores_layout) {
    put(out, static_cast<uint8_t>(layout_.rounding == Rounding::half ? 1 : 0));
    put_varint(out, layout_.bucket);
  }
  if (layout_.bucket == 0) put(out, layout_.step);
  if (layout_.stores_level) put_varint(out, layout_.max_level);
  if (layout_.scales) layout_.scales->write(out);
  return out;
}

std::optional<uint64_t> GridDecoder::params_size(Range range) const {
  return layout_.bucket == 0 ? 0 : bucket_count(range.count, layout_.bucket) * sizeof(float);
}

StreamShapes GridDecoder::streams(const Code&, Range range) const {
  const uint32_t classes = layout_.rounding == Rounding::nearest ? 0 : kernels::kDitherClasses;
  return {{2 * layout_.max_level + 1, range.count, classes, layout_.scales != nullptr}};
}

std::string GridDecoder::describe() const {
  std::string layout;
  if (layout_.stores_layout) layout = layout_.rounding == Rounding::half ? "not subtracted, " : "subtracted, ";
  if (layout_.stores_layout && layout_.bucket != 0) layout += "buckets of " + std::to_string(layout_.bucket) + ", ";
  const std::string step =
      layout_.bucket == 0 ? "step " + number_text(static_cast<double>(layout_.step), 4) : "a step a bucket";
  if (by_class()) layout += "by class, largest ";
  return layout + step + ", M " + std::to_string(layout_.max_level);
}

void GridDecoder::contexts(const Code&, size_t, Range range, std::span<uint16_t> out) const {
  kernels::dither_contexts(draws_, range.first, out.size(), out.data());
}

void GridDecoder::scales(const Code&, size_t, Range range, std::span<uint8_t> out) const {
  std::array<uint8_t, LineScales::kSums> of_sum;
  for (uint32_t sum = 0; sum < LineScales::kSums; ++sum) {
    const int32_t sixteenths = layout_.scales->base() - 8 * static_cast<int32_t>(sum);
    of_sum[sum] = scale_class_of(sixteenths + (layout_.by_class ? step_drop(sixteenths) : 0));
  }
  layout_.scales->fill<uint8_t>(range, of_sum, kZeroScale, out);
}

void GridDecoder::for_steps(Range range,
                            const std::function<void(size_t at, std::span<const float> steps)>& visit) const {
  constexpr uint64_t kPiece = 4096;
  std::array<float, kPiece> steps;
  for (uint64_t at = 0; at < range.count; at += kPiece) {
    const std::span<float> piece = std::span(steps).first(static_cast<size_t>(std::min(kPiece, range.count - at)));
    layout_.scales->fill<float>({range.first + at, piece.size()}, steps_, 0.0F, piece);
    visit(static_cast<size_t>(at), piece);
  }
}

void GridDecoder::decode_by_class(const Code& code, Range range, std::span<float> out) const {
  const uint16_t* const symbols = code.streams[0].symbols.data();
  for_steps(range, [&](size_t at, std::span<const float> steps) {
    bool is_wrong = false;
    for (size_t i = 0; i < steps.size(); ++i) is_wrong |= steps[i] == 0 && symbols[at + i] != layout_.max_level;
    if (is_wrong) throw Error(Exit::bad_input, "the chunk has a symbol that is not 0 where the step is 0");
    kernels::dither_decode_steps(symbols + at, steps.data(), steps.size(), draws_, range.first + at, layout_.max_level,
                                 out.data() + at);
  });
}

void GridDecoder::decode(const Code& code, Range range, std::span<float> out) const {
  if (by_class()) {
    decode_by_class(code, range, out);
    check_exceptions(code, range, 1);
    return put_back(code.exceptions, out);
  }
  const std::vector<uint16_t>& symbols = code.streams[0].symbols;
  const uint64_t run = layout_.bucket == 0 ? range.count : layout_.bucket;
  for (uint64_t at = 0; at < range.count; at += run) {
    const size_t len = static_cast<size_t>(std::min(run, range.count - at));
    const float step = layout_.bucket == 0 ? layout_.step : step_at(code.params, at / run);
    const auto refuse = [&](const std::string& why) {
      const std::string bucket =
          layout_.bucket == 0 ? "the chunk" : "bucket " + std::to_string(at / run) + " of the chunk";
      throw Error(Exit::bad_input, bucket + " has " + why);
    };
    if (!is_step(step)) refuse("a step that is not 0 or from 2^-126 to 2^126");
    const auto first = symbols.begin() + static_cast<ptrdiff_t>(at);
    const auto is_zero = [&](uint16_t symbol) { return symbol == layout_.max_level; };
    if (step == 0 && !std::all_of(first, first + static_cast<ptrdiff_t>(len), is_zero)) {
      refuse("a symbol that is not 0 where the step is 0");
    }
    const kernels::Lattice lattice = {step, layout_.max_level};
    if (layout_.rounding == Rounding::subtractive) {
      kernels::dither_decode(symbols.data() + at, len, draws_, range.first + at, lattice, out.data() + at);
    } else {
      kernels::half_dither_decode(symbols.data() + at, len, lattice, out.data() + at);
    }
  }
  check_exceptions(code, range, run);
  put_back(code.exceptions, out);
}

// Only what could not be quantized is an exception, and its symbol is 0.
void GridDecoder::add_symbols(const Code& code, int32_t weight, std::span<int32_t> sums) const {
  const uint16_t* const symbols = code.streams[0].symbols.data();
  const auto zero = static_cast<int32_t>(layout_.max_level);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * (int32_t{symbols[i]} - zero);
}

float GridDecoder::step_of(const Code& code, Range range, uint64_t run, uint64_t index) const {
  if (layout_.bucket != 0) return step_at(code.params, index / run);
  if (!by_class()) return layout_.step;
  std::array<float, 1> step;
  layout_.scales->fill<float>({range.first + index, 1}, steps_, 0.0F, step);
  return step[0];
}

void GridDecoder::check_exceptions(const Code& code, Range range, uint64_t run) const {
  for (const Exception& exception : code.exceptions) {
    const float step = step_of(code, range, run, exception.index);
    // Only a step that was not chosen for the range leaves regular values beyond the last level.
    const bool bounded = layout_.stores_level && !layout_.reaches_all && step > 0;
    const double limit = bounded ? limit_of(step) : std::numeric_limits<double>::infinity();
    const uint16_t symbol = code.streams[0].symbols[static_cast<size_t>(exception.index)];
    require_needed(exception, symbol == layout_.max_level, limit);
  }
}

Law GridDecoder::law_of(float target, double step) const {
  if (step == 0) return Law::at(0);
  const auto x = static_cast<double>(target);
  if (layout_.rounding == Rounding::subtractive) return Law::dithered(step);
  if (layout_.rounding == Rounding::half) return Law::rounded_to_step(x, step);
  const double size = std::floor(std::fabs(x) / step + 0.5) * step;
  return Law::at(static_cast<double>(static_cast<float>(x < 0 ? -size : size)) - x);
}

// What lies beyond the last level has no law: it decodes to less than it is.
void GridDecoder::laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const {
  const auto set_laws = [&](size_t i, double step) {
    const double limit = step * layout_.max_level;  // exact: 24 bits times 15
    laws[i] = law_of(target[i], step);
    if (!(std::fabs(static_cast<double>(target[i])) <= limit)) laws[i].kind = Law::outside;
  };
  if (by_class()) {
    for_steps(range, [&](size_t at, std::span<const float> steps) {
      for (size_t i = 0; i < steps.size(); ++i) set_laws(at + i, static_cast<double>(steps[i]));
    });
  }
  const uint64_t run = layout_.bucket == 0 ? range.count : layout_.bucket;
  for (uint64_t at = 0; at < range.count && !by_class(); at += run) {
    const auto step = static_cast<double>(layout_.bucket == 0 ? layout_.step : step_at(code.params, at / run));
    const uint64_t end = std::min(range.count, at + run);
    for (size_t i = static_cast<size_t>(at); i < end; ++i) set_laws(i, step);
  }
  for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
}

std::span<const float> Clipped::read(Range range, std::span<float> scratch) const {
  const std::span<const float> x = tensor_.read(range, scratch);
  std::transform(x.begin(), x.end(), scratch.begin(), [this](float value) {
    return std::bit_cast<uint32_t>(std::fabs(value)) > kernels::kMaxRegularBits ? value
                                                                                : std::clamp(value, -clip_, clip_);
  });
  return scratch.first(x.size());
}

GridEncoder::GridEncoder(const Tensor& tensor, const GridLayout& layout, const Inputs& inputs, GridChoice choice)
    : tensor_(tensor),
      clipped_(tensor, choice.clip),
      decoder_(with_scales(layout, choice.clip < std::numeric_limits<float>::infinity() ? clipped_ : tensor, inputs),
               inputs),
      choice_(std::move(choice)),
      chunks_(tensor.size(), inputs) {}

// The chunk's values as they are quantized: clipped, irregular ones set aside.
std::span<const float> GridEncoder::read(Range range, Code& code) const {
  return clips() ? read_regular(clipped_, range, choice_.exceptions, code)
                 : read_regular(tensor_, range, choice_.exceptions, code);
}

// In the scratch copy, what is beyond the largest level of this step.
void GridEncoder::set_aside_from(Code& code, size_t at, size_t count, float step) const {
  if (!choice_.exceptions || step == 0) return;
  set_aside(std::span(code.scratch).subspan(at, count), limit_of(step), at, code.exceptions);
}

void GridEncoder::encode_run(std::span<const float> x, Range range, float step, Code& code, size_t at,
                             std::span<float> decoded) const {
  const GridLayout& layout = decoder_.layout();
  const std::span<const float> run = x.subspan(at, static_cast<size_t>(range.count));
  set_aside_from(code, at, run.size(), step);  // x is the scratch copy then
  const kernels::Lattice lattice = {step, layout.max_level};
  uint16_t* const symbols = code.streams[0].symbols.data() + at;
  float* const values = decoded.empty() ? nullptr : decoded.data() + at;
  if (layout.rounding == Rounding::nearest) {
    nearest_encode(run, lattice, symbols, values);
  } else {
    const auto encode = layout.rounding == Rounding::subtractive ? kernels::dither_encode : kernels::half_dither_encode;
    encode(run.data(), run.size(), decoder_.draws(), range.first, lattice, symbols, values);
  }
}

void GridEncoder::encode_by_class(std::span<const float> x, Range range, Code& code, std::span<float> decoded) const {
  decoder_.for_steps(range, [&](size_t at, std::span<const float> steps) {
    for (size_t i = 0; i < steps.size() && choice_.exceptions; ++i) set_aside_from(code, at + i, 1, steps[i]);
    kernels::dither_encode_steps(x.data() + at, steps.data(), steps.size(), decoder_.draws(), range.first + at,
                                 decoder_.layout().max_level, code.streams[0].symbols.data() + at,
                                 decoded.empty() ? nullptr : decoded.data() + at);
  });
}

void GridEncoder::encode(Range range, Code& code, std::span<float> decoded) const {
  const GridLayout& layout = decoder_.layout();
  const auto len = static_cast<size_t>(range.count);
  code.params.clear();
  code.exceptions.clear();
  code.streams.resize(1);
  code.streams[0].alphabet = 2 * layout.max_level + 1;
  code.streams[0].symbols.resize(len);
  const std::span<const float> x = read(range, code);
  const bool by_class = decoder_.by_class();
  if (by_class) encode_by_class(x, range, code, decoded);
  const size_t run = layout.bucket == 0 ? len : static_cast<size_t>(layout.bucket);
  for (size_t at = 0; at < len && !by_class; at += run) {
    const size_t count = std::min(run, len - at);
    const float step = layout.bucket == 0 ? layout.step : choice_.rule(x.subspan(at, count));
    if (layout.bucket != 0) put(code.params, step);
    encode_run(x, {range.first + at, count}, step, code, at, decoded);
  }
  std::sort(code.exceptions.begin(), code.exceptions.end(),
            [](const Exception& a, const Exception& b) { return a.index < b.index; });
  if (!decoded.empty()) put_back(code.exceptions, decoded);
}

Promise GridEncoder::declared(double variance, float largest, bool raised) const {
  const Rounding rounding = decoder_.layout().rounding;
  Promise promise;
  promise.unbiased = rounding != Rounding::nearest;
  promise.independent = true;
  promise.target = clips() ? &clipped_ : nullptr;
  promise.variance = variance;
  // To nearest, an error is one that float32 has a part in.
  const double rounded = rounding == Rounding::nearest ? 0x1p-24 * decoder_.layout().max_level : 0;
  promise.max_error = static_cast<double>(largest) * ((rounding == Rounding::half ? 1 : 0.5) + rounded);
  if (!raised) promise.omega = choice_.omega;
  promise.delta = delta_of(promise.omega);
  return promise;
}

Promise GridEncoder::promise_by_class() const {
  double variance = 0;
  float largest = 0;
  bool raised = false;
  Code code;
  for (uint64_t i = 0; i < chunks_.count(); ++i) {
    code.exceptions.clear();
    const std::span<const float> x = choice_.exceptions ? read(chunks_[i], code) : std::span<const float>();
    double part = 0;
    decoder_.for_steps(chunks_[i], [&](size_t at, std::span<const float> steps) {
      for (size_t j = 0; j < steps.size(); ++j) {
        const auto step = static_cast<double>(steps[j]);
        part += step * step / 12;
        largest = std::max(largest, steps[j]);
        raised |= steps[j] == kMinStep;
        if (!x.empty()) set_aside_from(code, at + j, 1, steps[j]);
      }
    });
    for (const Exception& exception : code.exceptions) {
      const auto step = static_cast<double>(decoder_.step_of(code, chunks_[i], 1, exception.index));
      part -= step * step / 12;
    }
    variance += part;
  }
  return declared(variance, largest, raised);
}

// Exceptions have no error, and neither has what a step of 0 stands for.
Promise GridEncoder::promise() const {
  const GridLayout& layout = decoder_.layout();
  if (decoder_.by_class()) return promise_by_class();
  const bool by_value = layout.rounding != Rounding::subtractive;
  if (layout.bucket == 0 && !choice_.exceptions && !by_value) {
    const auto step = static_cast<double>(layout.step);
    return declared(step * step / 12 * static_cast<double>(tensor_.size()), layout.step, layout.step == kMinStep);
  }
  double variance = 0;
  float largest = 0;
  bool raised = false;
  Code code;
  std::vector<std::pair<double, uint64_t>> steps;  // of the chunk's buckets, and how many values they are for
  for (uint64_t i = 0; i < chunks_.count(); ++i) {
    code.exceptions.clear();
    steps.clear();
    const std::span<const float> x = read(chunks_[i], code);
    const size_t run = layout.bucket == 0 ? std::max<size_t>(1, x.size()) : static_cast<size_t>(layout.bucket);
    for (size_t at = 0; at < x.size(); at += run) {
      const std::span<const float> values = x.subspan(at, std::min(run, x.size() - at));
      const float step = layout.bucket == 0 ? layout.step : choice_.rule(values);
      set_aside_from(code, at, values.size(), step);
      steps.emplace_back(step, values.size());
      largest = std::max(largest, step);
      raised |= step == kMinStep;
      if (by_value) variance += variance_of(values, steps.back().first);
    }
    if (by_value) continue;  // what is set aside is 0 there
    for (const Exception& exception : code.exceptions) --steps[static_cast<size_t>(exception.index) / run].second;
    for (const auto& [step, count] : steps) variance += step * step / 12 * static_cast<double>(count);
  }
  return declared(variance, largest, raised);
}

// Of values that are rounded to neighbours: the sum of the squared error's expectations.
double GridEncoder::variance_of(std::span<const float> values, double step) const {
  if (step == 0) return 0;
  double variance = 0;
  for (const float value : values) {
    const Law law = decoder_.law_of(value, step);
    variance += law.kind == Law::two ? law.variance_of_two() : law.lo * law.lo;
  }
  return variance;
}

}  // namespace gradcodec
