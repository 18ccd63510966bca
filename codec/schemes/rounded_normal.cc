// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/rounded_normal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "codec/buckets.h"
#include "codec/levels/normal.h"

namespace gradcodec {
namespace {

constexpr float kMinUnit = 0x1p-120F, kMaxTop = 0x1p126F;
// Top over unit, at least: above the largest of the other levels.
constexpr double kLeastTop = 3;
constexpr size_t kMostLevels = size_t{1} << normal::kMaxBits;

using Table = std::array<float, kMostLevels>;

// The symbol that zeros have: the smallest positive level.
uint16_t rest_symbol(unsigned bits) { return static_cast<uint16_t>(1U << (bits - 1)); }

RoundedScale scale_at(const Bytes& params, uint64_t bucket) {
  std::array<float, 2> both;
  load_little(params.data() + bucket * sizeof(both), std::span<float>(both));
  return {both[0], both[1]};
}

Table table_of(const RoundedScale& scale, unsigned bits) {
  const std::span<const float> inner = normal::rounding_levels(bits);
  const size_t half = inner.size() + 1;
  Table table = {};
  for (size_t i = 0; i < half; ++i) {
    table[half + i] = i < inner.size() ? scale.unit * inner[i] : scale.top;
    table[half - 1 - i] = -table[half + i];
  }
  return table;
}

// Whether the bucket's parameters are ones that an encoder stores.
bool is_scale(const RoundedScale& scale, unsigned bits) {
  if (scale.unit == 0) return scale.top == 0 && !std::signbit(scale.unit) && !std::signbit(scale.top);
  if (!(scale.unit >= kMinUnit && scale.unit <= kMaxTop && scale.top <= kMaxTop)) return false;
  return scale.top > scale.unit * normal::rounding_levels(bits).back();
}

Law law_of(float target, const Table& table, uint32_t count) {
  const auto x = static_cast<double>(target);
  const auto* end = table.data() + count;
  const auto* above = std::upper_bound(table.data(), end, target);
  if (above == end) return x == static_cast<double>(end[-1]) ? Law::at(0) : Law{Law::outside, 0, 0, 0};
  if (above == table.data()) return {Law::outside, 0, 0, 0};
  return Law::rounded(x, static_cast<double>(above[-1]), static_cast<double>(above[0]));
}

// Of values z in [-l, l], l the smallest magnitude: the variance l^2 - z^2. In another interval [a, b] it is (z - a)(b
// - z), at most (b - a)^2 / (4 a b) z^2. The unit is at most the root mean square, so the sum over a bucket is at most
// l^2 + max (b - a)^2 / (4 a b) of its squares; the top is at most sqrt(bucket) units of the root mean square, and the
// top interval at its widest if it is that. (Else it is 3.)
double omega_of(const RoundedLayout& layout) {
  const std::span<const float> inner = normal::rounding_levels(layout.bits);
  const auto smallest = static_cast<double>(inner.front());
  double most = 0;
  for (size_t i = 0; i < inner.size(); ++i) {
    const auto a = static_cast<double>(inner[i]);
    const bool is_last = i + 1 == inner.size();
    const double b = is_last ? std::max(kLeastTop, std::sqrt(static_cast<double>(layout.bucket)))
                             : static_cast<double>(inner[i + 1]);
    most = std::max(most, (b - a) * (b - a) / (4 * a * b));
  }
  return (smallest * smallest + most) * (1 + 0x1p-20);
}

}  // namespace

RoundedScale rounded_scale_of(std::span<const float> y) {
  const float max = extent_of(y).max;
  if (max == 0) return {};
  const double sigma = std::sqrt(squares_of(y) / static_cast<double>(y.size()));
  const double unit = std::min(sigma, static_cast<double>(max) / kLeastTop);
  RoundedScale scale;
  scale.unit = std::max(static_cast<float>(unit), kMinUnit);
  // Where the unit was raised, three of it; where it was not, they are the largest magnitude but for rounding.
  const auto three = static_cast<float>(kLeastTop) * scale.unit;
  scale.top = max < 0.99F * three ? three : max;
  return scale;
}

std::optional<uint64_t> RoundedNormalDecoder::params_size(Range range) const {
  return bucket_count(range.count, layout_.bucket) * 2 * sizeof(float);
}

StreamShapes RoundedNormalDecoder::streams(const Code&, Range range) const {
  return {{1U << layout_.bits, range.count, kernels::kDitherClasses}};
}

std::string RoundedNormalDecoder::describe() const {
  return std::to_string(1U << layout_.bits) + " levels, a unit and a top a block";
}

void RoundedNormalDecoder::contexts(const Code&, size_t, Range range, std::span<uint16_t> out) const {
  kernels::dither_contexts(draws_, range.first, out.size(), out.data());
}

void RoundedNormalDecoder::decode(const Code& code, Range range, std::span<float> out) const {
  if (!code.exceptions.empty()) throw Error(Exit::bad_input, "a rotated value is an exception without need");
  const std::vector<uint16_t>& symbols = code.streams[0].symbols;
  for_each_bucket(range.count, layout_.bucket, [&](uint64_t bucket, size_t at, size_t count) {
    const RoundedScale scale = scale_at(code.params, bucket);
    if (!is_scale(scale, layout_.bits)) {
      refuse_block(bucket, "a unit and a top that are not both 0, nor those of rising levels up to 2^126");
    }
    const uint16_t* first = symbols.data() + at;
    const auto is_rest = [&](uint16_t symbol) { return symbol == rest_symbol(layout_.bits); };
    if (scale.unit == 0 && !std::all_of(first, first + count, is_rest)) {
      refuse_block(bucket, "a symbol that is not that of 0 where the unit is 0");
    }
    const Table table = table_of(scale, layout_.bits);
    kernels::levels_decode(first, count, table.data(), out.data() + at);
  });
}

void RoundedNormalDecoder::laws(const Code& code, Range range, std::span<const float> target,
                                std::span<Law> laws) const {
  for_each_bucket(range.count, layout_.bucket, [&](uint64_t bucket, size_t at, size_t count) {
    const RoundedScale scale = scale_at(code.params, bucket);
    const Table table = table_of(scale, layout_.bits);
    for (size_t i = at; i < at + count; ++i) {
      laws[i] =
          scale.unit == 0 ? Law::at(-static_cast<double>(target[i])) : law_of(target[i], table, 1U << layout_.bits);
    }
  });
}

RoundedNormalEncoder::RoundedNormalEncoder(const Tensor& tensor, const RoundedLayout& layout, const Inputs& inputs)
    : tensor_(tensor), chunks_(tensor.size(), inputs), decoder_(layout, inputs) {}

void RoundedNormalEncoder::encode(Range range, Code& code, std::span<float> decoded) const {
  const RoundedLayout& layout = decoder_.layout();
  const auto len = static_cast<size_t>(range.count);
  code.params.clear();
  code.exceptions.clear();
  code.streams.resize(1);
  code.streams[0].alphabet = 1U << layout.bits;
  code.streams[0].symbols.resize(len);
  code.scratch.resize(std::max(code.scratch.size(), len));
  const std::span<const float> y = tensor_.read(range, std::span(code.scratch).first(len));
  uint16_t* symbols = code.streams[0].symbols.data();
  for_each_bucket(range.count, layout.bucket, [&](uint64_t, size_t at, size_t count) {
    const RoundedScale scale = rounded_scale_of(y.subspan(at, count));
    put(code.params, scale.unit);
    put(code.params, scale.top);
    float* values = decoded.empty() ? nullptr : decoded.data() + at;
    if (scale.unit == 0) {
      std::fill_n(symbols + at, count, rest_symbol(layout.bits));
      if (values != nullptr) std::fill_n(values, count, 0.0F);
      return;
    }
    const Table table = table_of(scale, layout.bits);
    kernels::levels_encode(y.data() + at, count, decoder_.draws(), range.first + at, table.data(), 1U << layout.bits,
                           symbols + at, values);
  });
}

Promise RoundedNormalEncoder::promise() const {
  Promise promise;
  promise.unbiased = promise.independent = true;
  const RoundedLayout& layout = decoder_.layout();
  if (!has_tiny_bucket(tensor_, chunks_, layout.bucket)) promise.omega = omega_of(layout);
  return promise;
}

}  // namespace gradcodec
