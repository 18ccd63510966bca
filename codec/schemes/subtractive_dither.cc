// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/subtractive_dither.h"

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

SubtractiveDecoder::SubtractiveDecoder(const DitherLayout& layout, const Inputs& inputs)
    : layout_(layout), draws_(inputs.random.draws(Purpose::rounding, inputs.stage)) {}

std::unique_ptr<Decoder> SubtractiveDecoder::restore(DitherLayout layout, ByteReader& stored, const Inputs& inputs) {
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
  return std::make_unique<SubtractiveDecoder>(layout, inputs);
}

Bytes SubtractiveDecoder::stored() const {
  Bytes out;
  if (layout_.bucket == 0) put(out, layout_.step);
  if (layout_.stores_level) put_varint(out, layout_.max_level);
  return out;
}

ChunkShape SubtractiveDecoder::chunk_shape(Range range) const {
  const uint64_t steps = layout_.bucket == 0 ? 0 : bucket_count(range.count, layout_.bucket);
  return {steps * sizeof(float), {{2 * layout_.max_level + 1, range.count}}};
}

std::string SubtractiveDecoder::describe() const {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), layout_.step, std::chars_format::general, 4).ptr;
  const std::string step = layout_.bucket == 0 ? "step " + std::string(text.data(), end) : "a step a bucket";
  return step + ", M " + std::to_string(layout_.max_level);
}

void SubtractiveDecoder::decode(const Code& code, Range range, std::span<float> out) const {
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
void SubtractiveDecoder::check_exceptions(const Code& code, uint64_t run) const {
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

SubtractiveEncoder::SubtractiveEncoder(const Tensor& tensor, const DitherLayout& layout, const Inputs& inputs,
                                       float clip, bool exceptions, StepRule rule)
    : tensor_(tensor), decoder_(layout, inputs), clip_(clip), exceptions_(exceptions), rule_(std::move(rule)) {}

// The chunk's values as they are quantized: clipped, irregular ones set aside.
std::span<const float> SubtractiveEncoder::read(Range range, Code& code) const {
  code.scratch.resize(std::max(code.scratch.size(), static_cast<size_t>(range.count)));
  const std::span<float> scratch = std::span(code.scratch).first(static_cast<size_t>(range.count));
  const std::span<const float> x = tensor_.read(range, scratch);
  const bool clips = clip_ < std::numeric_limits<float>::infinity();
  if (!clips && !exceptions_) return x;
  if (x.data() != scratch.data()) std::copy(x.begin(), x.end(), scratch.begin());
  if (exceptions_) set_aside(scratch, std::numeric_limits<double>::infinity(), 0, code.exceptions);
  if (clips) {
    for (float& value : scratch) value = std::clamp(value, -clip_, clip_);
  }
  return scratch;
}

void SubtractiveEncoder::encode_run(std::span<const float> x, Range range, float step, Code& code, size_t at,
                                    std::span<float> decoded) const {
  const DitherLayout& layout = decoder_.layout();
  const std::span<const float> run = x.subspan(at, static_cast<size_t>(range.count));
  if (exceptions_ && step > 0) {  // x is the scratch copy here
    set_aside(std::span(code.scratch).subspan(at, run.size()), limit_of(step), at, code.exceptions);
  }
  kernels::dither_encode(run.data(), run.size(), decoder_.draws(), range.first, {step, layout.max_level},
                         code.streams[0].symbols.data() + at, decoded.empty() ? nullptr : decoded.data() + at);
}

void SubtractiveEncoder::encode(Range range, Code& code, std::span<float> decoded) const {
  const DitherLayout& layout = decoder_.layout();
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
    const float step = layout.bucket == 0 ? layout.step : rule_(x.subspan(at, count));
    if (layout.bucket != 0) put(code.params, step);
    encode_run(x, {range.first + at, count}, step, code, at, decoded);
  }
  std::sort(code.exceptions.begin(), code.exceptions.end(),
            [](const Exception& a, const Exception& b) { return a.index < b.index; });
  if (!decoded.empty()) put_back(code.exceptions, decoded);
}

}  // namespace gradcodec
