// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/level_quantizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace gradcodec {
namespace {

float scale_at(const Bytes& params, uint64_t bucket) {
  return load_little<float>(params.data() + bucket * sizeof(float));
}

// The values that share a scale, or are coded alike: at, count.
template <typename Visit>
void for_each_run(uint64_t len, uint64_t run, Visit visit) {
  for (uint64_t at = 0; at < len; at += run) {
    visit(static_cast<size_t>(at), static_cast<size_t>(std::min(run, len - at)));
  }
}

uint64_t run_of(const LevelDecoder& decoder, uint64_t len) {
  return decoder.has_buckets() ? decoder.layout().bucket : len;
}

// What values, limited to a table and rounded to it, add up to.
struct Errors {
  double variance = 0, largest = 0;

  void add(double x, std::span<const float> table) {
    const double value = std::clamp(x, static_cast<double>(table.front()), static_cast<double>(table.back()));
    const size_t low = interval_of(table, value);
    const double below = value - static_cast<double>(table[low]);
    const double above = static_cast<double>(table[low + 1]) - value;
    variance += below * above;
    if (below > 0 && above > 0) largest = std::max({largest, below, above});
  }
};

// The law of x among levels, as they are decoded.
Law law_of(double x, std::span<const float> table) {
  if (!(x >= static_cast<double>(table.front()) && x <= static_cast<double>(table.back())))
    return {Law::outside, 0, 0, 0};
  const size_t low = interval_of(table, x);
  const auto lo = static_cast<double>(table[low]), hi = static_cast<double>(table[low + 1]);
  return x == lo || x == hi ? Law::at(0) : Law::rounded(x, lo, hi);
}

}  // namespace

LevelDecoder::LevelDecoder(LevelLayout layout, const Inputs& inputs)
    : layout_(std::move(layout)),
      draws_(inputs.random.draws(Purpose::rounding, inputs.stage)),
      range_(layout_.scaled && !layout_.levels.empty() ? scale_range(layout_.levels) : ScaleRange{1, 0}),
      rest_(rest_symbol(layout_.levels)),
      antisymmetric_(is_antisymmetric(layout_.levels)) {
  if (layout_.levels.size() == 1 || layout_.levels.size() > kMostLevels) throw Error(Exit::bug, "a table of one level");
}

std::unique_ptr<Decoder> LevelDecoder::restore(LevelLayout layout, ByteReader& stored, const Inputs& inputs) {
  const bool has_scale = layout.scaled && layout.bucket == 0;
  if (has_scale) layout.scale = stored.get<float>();
  auto decoder = std::make_unique<LevelDecoder>(std::move(layout), inputs);
  if (has_scale && !decoder->is_scale(decoder->layout_.scale)) stored.fail("holds a scale that its levels cannot have");
  return decoder;
}

Bytes LevelDecoder::stored() const {
  Bytes out = layout_.stored;
  if (layout_.scaled && layout_.bucket == 0) put(out, layout_.scale);
  return out;
}

std::optional<uint64_t> LevelDecoder::params_size(Range range) const {
  const uint64_t scales = has_buckets() ? (range.count + layout_.bucket - 1) / layout_.bucket : 0;
  return scales * sizeof(float);
}

StreamShapes LevelDecoder::streams(const Code&, Range range) const {
  // What is near for one sign is near for the other in mirrored places only if the table is its own mirror image.
  const uint32_t classes = antisymmetric_ && alphabet() > 1 ? kernels::kDitherClasses : 0;
  return {{alphabet(), range.count, classes}};
}

std::string LevelDecoder::describe() const {
  if (!layout_.scaled) return layout_.description;
  std::string scale = "a scale a bucket";
  if (layout_.bucket == 0) {
    std::array<char, 32> text;
    const auto end =
        std::to_chars(text.data(), text.data() + text.size(), layout_.scale, std::chars_format::general, 4).ptr;
    scale = "scale " + std::string(text.data(), end);
  }
  return layout_.description.empty() ? scale : layout_.description + ", " + scale;
}

void LevelDecoder::contexts(const Code&, size_t, Range range, std::span<uint16_t> out) const {
  kernels::dither_contexts(draws_, range.first, out.size(), out.data());
}

// Where all is 0, symbols must not say otherwise.
void LevelDecoder::check_symbols(const Code& code, size_t at, size_t count, float scale) const {
  const auto refuse = [&](const std::string& why) {
    const std::string bucket =
        has_buckets() ? "bucket " + std::to_string(at / layout_.bucket) + " of the chunk" : "the chunk";
    throw Error(Exit::bad_input, bucket + " has " + why);
  };
  if (!is_scale(scale)) refuse("a scale that is none its levels can have");
  const auto first = code.streams[0].symbols.begin() + static_cast<ptrdiff_t>(at);
  const auto is_rest = [this](uint16_t symbol) { return symbol == rest_; };
  if (scale == 0 && !std::all_of(first, first + static_cast<ptrdiff_t>(count), is_rest)) {
    refuse("a symbol that is not that of 0 where the scale is 0");
  }
}

// Only what could not be quantized is an exception, and it has no symbol of its own.
void LevelDecoder::check_exceptions(const Code& code) const {
  for (const Exception& exception : code.exceptions) {
    const uint16_t symbol = code.streams[0].symbols[static_cast<size_t>(exception.index)];
    if (fits(exception.bits, std::numeric_limits<double>::infinity()) || symbol != rest_) {
      throw Error(Exit::bad_input, "element " + std::to_string(exception.index) +
                                       " of the chunk is an exception without need, or has a symbol too");
    }
  }
}

// Scaled, the levels are multiplied one by one: of a bucket, a table of products could be longer than itself.
void LevelDecoder::decode(const Code& code, Range range, std::span<float> out) const {
  const uint16_t* symbols = code.streams[0].symbols.data();
  if (layout_.levels.empty()) {
    std::fill_n(out.begin(), range.count, 0.0F);
  } else {
    for_each_run(range.count, run_of(*this, range.count), [&](size_t at, size_t count) {
      if (layout_.scaled) {
        const float scale = has_buckets() ? scale_at(code.params, at / layout_.bucket) : layout_.scale;
        check_symbols(code, at, count, scale);
        kernels::levels_decode(symbols + at, count, layout_.levels.data(), out.data() + at);
        for (float& value : out.subspan(at, count)) value = scale == 0 ? 0.0F : scale * value;
      } else {
        kernels::levels_decode(symbols + at, count, layout_.levels.data(), out.data() + at);
      }
    });
  }
  check_exceptions(code);
  put_back(code.exceptions, out);
}

// What lies beyond the levels has no law: it decodes to less than it is.
void LevelDecoder::laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const {
  std::vector<float> table(layout_.levels);
  for_each_run(range.count, run_of(*this, range.count), [&](size_t at, size_t count) {
    const float scale = !layout_.scaled ? 1
                        : has_buckets() ? scale_at(code.params, at / layout_.bucket)
                                        : layout_.scale;
    const bool all_zero = scale == 0 || table.empty();
    if (layout_.scaled) scale_levels(layout_.levels, scale, table);
    for (size_t i = at; i < at + count; ++i) {
      const auto x = static_cast<double>(target[i]);
      laws[i] = all_zero ? Law{x == 0 ? Law::point : Law::outside, 0, 0, 0} : law_of(x, table);
    }
  });
  for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
}

std::span<const float> Limited::read(Range range, std::span<float> scratch) const {
  const std::span<const float> x = tensor_.read(range, scratch);
  std::transform(x.begin(), x.end(), scratch.begin(), [this](float value) {
    return fits(std::bit_cast<uint32_t>(value), std::numeric_limits<double>::infinity())
               ? std::clamp(value, low_, high_)
               : value;
  });
  return scratch.first(x.size());
}

LevelEncoder::LevelEncoder(const Tensor& tensor, LevelLayout layout, const Inputs& inputs, LevelChoice choice)
    : tensor_(tensor),
      decoder_(std::move(layout), inputs),
      choice_(std::move(choice)),
      limited_(tensor, decoder_.layout().levels.empty() ? 0 : decoder_.layout().levels.front(),
               decoder_.layout().levels.empty() ? 0 : decoder_.layout().levels.back()),
      chunks_(tensor.size(), inputs) {}

// The chunk's values, irregular ones set aside. The kernel limits them to the levels.
std::span<const float> LevelEncoder::read(Range range, Code& code) const {
  code.scratch.resize(std::max(code.scratch.size(), static_cast<size_t>(range.count)));
  const std::span<float> scratch = std::span(code.scratch).first(static_cast<size_t>(range.count));
  const std::span<const float> x = tensor_.read(range, scratch);
  if (!choice_.exceptions) return x;
  if (x.data() != scratch.data()) std::copy(x.begin(), x.end(), scratch.begin());
  set_aside(scratch, std::numeric_limits<double>::infinity(), 0, code.exceptions);
  return scratch;
}

float LevelEncoder::scale_of(std::span<const float> run) const {
  const LevelLayout& layout = decoder_.layout();
  if (!layout.scaled) return layout.levels.empty() ? 0 : 1;
  return layout.bucket == 0 ? layout.scale : choice_.rule(run);
}

// The levels as they are decoded under this scale.
std::span<const float> LevelEncoder::table_of(float scale, std::vector<float>& room) const {
  const LevelLayout& layout = decoder_.layout();
  if (!layout.scaled) return layout.levels;
  room.resize(layout.levels.size());
  scale_levels(layout.levels, scale, room);
  return room;
}

void LevelEncoder::encode(Range range, Code& code, std::span<float> decoded) const {
  const auto len = static_cast<size_t>(range.count);
  code.params.clear();
  code.exceptions.clear();
  code.streams.resize(1);
  code.streams[0].alphabet = decoder_.alphabet();
  code.streams[0].symbols.resize(len);
  const std::span<const float> x = read(range, code);
  std::vector<float> room;
  for_each_run(len, run_of(decoder_, len), [&](size_t at, size_t count) {
    const std::span<const float> run = x.subspan(at, count);
    const float scale = scale_of(run);
    if (decoder_.has_buckets()) put(code.params, scale);
    uint16_t* symbols = code.streams[0].symbols.data() + at;
    if (scale == 0) {
      std::fill_n(symbols, count, decoder_.rest());
      if (!decoded.empty()) std::fill_n(decoded.data() + at, count, 0.0F);
      return;
    }
    const std::span<const float> table = table_of(scale, room);
    kernels::levels_encode(run.data(), count, decoder_.draws(), range.first + at, table.data(),
                           static_cast<uint32_t>(table.size()), symbols,
                           decoded.empty() ? nullptr : decoded.data() + at);
  });
  // A table without 0 has rounded the zeros in their places.
  for (const Exception& exception : code.exceptions) {
    code.streams[0].symbols[static_cast<size_t>(exception.index)] = decoder_.rest();
  }
  if (!decoded.empty()) put_back(code.exceptions, decoded);
}

// The variance of each value between its neighbours, none for exceptions and where all is 0.
Promise LevelEncoder::promise() const {
  const LevelLayout& layout = decoder_.layout();
  const bool can_raise = layout.scaled && !layout.levels.empty();
  const float least = can_raise ? scale_range(layout.levels).least : 0;
  Errors errors;
  bool raised = false;
  Code code;
  std::vector<float> room;
  for (uint64_t i = 0; i < chunks_.count(); ++i) {
    const Range range = chunks_[i];
    code.exceptions.clear();
    const std::span<const float> x = read(range, code);
    auto exception = code.exceptions.begin();
    for_each_run(range.count, run_of(decoder_, range.count), [&](size_t at, size_t count) {
      const float scale = scale_of(x.subspan(at, count));
      raised |= can_raise && scale == least;
      const std::span<const float> table = scale == 0 ? std::span<const float>() : table_of(scale, room);
      for (size_t place = at; place < at + count; ++place) {
        if (exception != code.exceptions.end() && exception->index == place) {
          ++exception;
        } else if (scale != 0) {
          errors.add(static_cast<double>(x[place]), table);
        }
      }
    });
  }
  Promise promise;
  promise.unbiased = promise.independent = true;
  promise.target = choice_.clip ? &limited_ : nullptr;
  promise.variance = errors.variance;
  promise.max_error = errors.largest;
  if (!raised) promise.omega = choice_.omega;
  promise.delta = delta_of(promise.omega);
  return promise;
}

}  // namespace gradcodec
