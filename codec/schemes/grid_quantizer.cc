// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/grid_quantizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace gradcodec {
namespace {

constexpr float kMinStep = 0x1p-126F;
constexpr float kMaxStep = 0x1p126F;

bool is_step(float step) { return step == 0 ? !std::signbit(step) : step >= kMinStep && step <= kMaxStep; }

uint64_t bucket_count(uint64_t len, uint64_t bucket) { return (len + bucket - 1) / bucket; }

float step_at(const Bytes& params, uint64_t bucket) {
  float step;
  std::memcpy(&step, params.data() + bucket * sizeof(float), sizeof(float));
  return step;
}

// Values beyond this are set aside. Exact: 15 bits times 24.
double limit_of(float step) { return static_cast<double>(kMaxLevel) * static_cast<double>(step); }

}  // namespace

float clamp_step(double step) {
  return static_cast<float>(std::clamp(step, static_cast<double>(kMinStep), static_cast<double>(kMaxStep)));
}

float step_for_range(float max, uint32_t max_level) {
  if (max == 0) return 0;
  const auto levels = static_cast<double>(max_level);
  float step = clamp_step(static_cast<double>(max) / levels);
  if (levels * static_cast<double>(step) < static_cast<double>(max)) {
    step = std::bit_cast<float>(std::bit_cast<uint32_t>(step) + 1);
  }
  return step;
}

uint32_t level_for(float magnitude, float step) {
  if (step == 0) return 0;
  // The quotient of two float32 is an integer in float64 only if it is one: its distance to the next is 2^-24 or more.
  const double levels = std::ceil(static_cast<double>(magnitude) / static_cast<double>(step));
  return static_cast<uint32_t>(std::min(levels, static_cast<double>(kMaxLevel)));
}

GridDecoder::GridDecoder(const GridLayout& layout, const Inputs& inputs)
    : layout_(layout), draws_(inputs.random.draws(Purpose::rounding, inputs.stage)) {}

std::unique_ptr<Decoder> GridDecoder::restore(GridLayout layout, ByteReader& stored, const Inputs& inputs) {
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
  return std::make_unique<GridDecoder>(layout, inputs);
}

Bytes GridDecoder::stored() const {
  Bytes out;
  if (layout_.bucket == 0) put(out, layout_.step);
  if (layout_.stores_level) put_varint(out, layout_.max_level);
  return out;
}

std::optional<uint64_t> GridDecoder::params_size(Range range) const {
  return layout_.bucket == 0 ? 0 : bucket_count(range.count, layout_.bucket) * sizeof(float);
}

StreamShapes GridDecoder::streams(const Code&, Range range) const {
  return {{2 * layout_.max_level + 1, range.count, kernels::kDitherClasses}};
}

std::string GridDecoder::describe() const {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), layout_.step, std::chars_format::general, 4).ptr;
  const std::string step = layout_.bucket == 0 ? "step " + std::string(text.data(), end) : "a step a bucket";
  return step + ", M " + std::to_string(layout_.max_level);
}

void GridDecoder::contexts(const Code&, size_t, Range range, std::span<uint16_t> out) const {
  kernels::dither_contexts(draws_, range.first, out.size(), out.data());
}

void GridDecoder::decode(const Code& code, Range range, std::span<float> out) const {
  const std::vector<uint16_t>& symbols = code.streams[0].symbols;
  const uint64_t run = layout_.bucket == 0 ? range.count : layout_.bucket;
  for (uint64_t at = 0; at < range.count; at += run) {
    const size_t len = static_cast<size_t>(std::min(run, range.count - at));
    const float step = layout_.bucket == 0 ? layout_.step : step_at(code.params, at / run);
    if (!is_step(step)) throw Error(Exit::bad_input, "a bucket's step is not 0 or from 2^-126 to 2^126");
    const auto first = symbols.begin() + static_cast<ptrdiff_t>(at);
    const auto is_zero = [&](uint16_t symbol) { return symbol == layout_.max_level; };
    if (step == 0 && !std::all_of(first, first + static_cast<ptrdiff_t>(len), is_zero)) {
      throw Error(Exit::bad_input, "a symbol is not 0 where the step is 0");
    }
    kernels::dither_decode(symbols.data() + at, len, draws_, range.first + at, {step, layout_.max_level},
                           out.data() + at);
  }
  check_exceptions(code, run);
  put_back(code.exceptions, out);
}

// Only what could not be quantized is an exception, and its symbol is 0.
void GridDecoder::check_exceptions(const Code& code, uint64_t run) const {
  for (const Exception& exception : code.exceptions) {
    const float step = layout_.bucket == 0 ? layout_.step : step_at(code.params, exception.index / run);
    // Only a step that was not chosen for the range leaves regular values beyond the last level.
    const bool bounded = layout_.stores_level && step > 0;
    const double limit = bounded ? limit_of(step) : std::numeric_limits<double>::infinity();
    const uint16_t symbol = code.streams[0].symbols[static_cast<size_t>(exception.index)];
    if (fits(exception.bits, limit) || symbol != layout_.max_level) {
      throw Error(Exit::bad_input, "element " + std::to_string(exception.index) +
                                       " of the chunk is an exception without need, or has a symbol too");
    }
  }
}

// What lies beyond the last level has no law: it decodes to less than it is.
void GridDecoder::laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const {
  const uint64_t run = layout_.bucket == 0 ? range.count : layout_.bucket;
  for (uint64_t at = 0; at < range.count; at += run) {
    const auto step = static_cast<double>(layout_.bucket == 0 ? layout_.step : step_at(code.params, at / run));
    const Law law = step == 0 ? Law::at(0) : Law::dithered(step);
    const double limit = step * layout_.max_level;  // exact: 24 bits times 15
    const uint64_t end = std::min(range.count, at + run);
    for (size_t i = static_cast<size_t>(at); i < end; ++i) {
      laws[i] = law;
      if (!(std::fabs(static_cast<double>(target[i])) <= limit)) laws[i].kind = Law::outside;
    }
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

GridEncoder::GridEncoder(const Tensor& tensor, const GridLayout& layout, const Inputs& inputs,
                                       GridChoice choice)
    : tensor_(tensor),
      clipped_(tensor, choice.clip),
      decoder_(layout, inputs),
      choice_(std::move(choice)),
      chunks_(tensor.size(), inputs) {}

// The chunk's values as they are quantized: clipped, irregular ones set aside.
std::span<const float> GridEncoder::read(Range range, Code& code) const {
  code.scratch.resize(std::max(code.scratch.size(), static_cast<size_t>(range.count)));
  const std::span<float> scratch = std::span(code.scratch).first(static_cast<size_t>(range.count));
  const std::span<const float> x = clips() ? clipped_.read(range, scratch) : tensor_.read(range, scratch);
  if (!choice_.exceptions) return x;
  if (x.data() != scratch.data()) std::copy(x.begin(), x.end(), scratch.begin());
  set_aside(scratch, std::numeric_limits<double>::infinity(), 0, code.exceptions);
  return scratch;
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
  kernels::dither_encode(run.data(), run.size(), decoder_.draws(), range.first, {step, layout.max_level},
                         code.streams[0].symbols.data() + at, decoded.empty() ? nullptr : decoded.data() + at);
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
  const size_t run = layout.bucket == 0 ? len : static_cast<size_t>(layout.bucket);
  for (size_t at = 0; at < len; at += run) {
    const size_t count = std::min(run, len - at);
    const float step = layout.bucket == 0 ? layout.step : choice_.rule(x.subspan(at, count));
    if (layout.bucket != 0) put(code.params, step);
    encode_run(x, {range.first + at, count}, step, code, at, decoded);
  }
  std::sort(code.exceptions.begin(), code.exceptions.end(),
            [](const Exception& a, const Exception& b) { return a.index < b.index; });
  if (!decoded.empty()) put_back(code.exceptions, decoded);
}

// Variance step^2 / 12 for each value that is quantized, none for exceptions and for what a step of 0 stands for.
Promise GridEncoder::promise() const {
  const GridLayout& layout = decoder_.layout();
  double variance = 0;
  float largest = 0;
  bool raised = false;
  const auto add = [&](float step, uint64_t count) {
    const auto wide = static_cast<double>(step);
    variance += wide * wide / 12 * static_cast<double>(count);
    largest = std::max(largest, step);
    raised |= step == kMinStep;
  };
  if (layout.bucket == 0 && !choice_.exceptions) {
    add(layout.step, tensor_.size());
  } else {
    Code code;
    std::vector<std::pair<float, uint64_t>> steps;  // of the chunk's buckets, and how many values they are for
    for (uint64_t i = 0; i < chunks_.count(); ++i) {
      const Range range = chunks_[i];
      code.exceptions.clear();
      steps.clear();
      const std::span<const float> x = read(range, code);
      const uint64_t run = layout.bucket == 0 ? range.count : layout.bucket;
      for (uint64_t at = 0; at < range.count; at += run) {
        const auto from = static_cast<size_t>(at), count = static_cast<size_t>(std::min(run, range.count - at));
        const float step = layout.bucket == 0 ? layout.step : choice_.rule(x.subspan(from, count));
        set_aside_from(code, from, count, step);
        steps.emplace_back(step, count);
      }
      for (const Exception& exception : code.exceptions) --steps[static_cast<size_t>(exception.index / run)].second;
      for (const auto& [step, count] : steps) add(step, count);
    }
  }
  Promise promise;
  promise.unbiased = promise.independent = true;
  promise.target = clips() ? &clipped_ : nullptr;
  promise.variance = variance;
  promise.max_error = static_cast<double>(largest) / 2;
  if (!raised) promise.omega = choice_.omega;
  if (promise.omega && *promise.omega < 1) promise.delta = 1 - *promise.omega;
  return promise;
}

}  // namespace gradcodec
