// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/truncated.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "codec/schemes/grid_quantizer.h"
#include "codec/schemes/level_quantizer.h"

namespace gradcodec {
namespace {

constexpr float kMinHalfStep = 0x1p-126F;
constexpr float kMaxListed = 0x1p126F;
constexpr float kMaxMultiple = 0x1p127F;  // float32(s h) >= 2^126 for h rounded up

unsigned bits_of(const Params& params) { return static_cast<unsigned>(integer_of(params, "bits")); }

// Equal intervals: the odd multiples of half an interval.
std::vector<float> magnitudes_of_half_step(float half_step, unsigned bits) {
  std::vector<float> magnitudes;
  for (uint32_t j = 1; j < 1U << bits; j += 2) magnitudes.push_back(static_cast<float>(j) * half_step);
  return magnitudes;
}

std::string number_text(float x) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), x, std::chars_format::general, 4).ptr};
}

// What is stored: one number, which is +0 where all values are 0, or all positive levels.
LevelLayout layout_of(std::span<const float> magnitudes, bool is_uniform) {
  LevelLayout layout;
  if (magnitudes.empty()) {
    put(layout.stored, 0.0F);
    layout.description = "all zero";
    return layout;
  }
  layout.levels = mirrored_levels(magnitudes, false);
  put_magnitudes(layout.stored, is_uniform ? magnitudes.first(1) : magnitudes);
  layout.description = std::to_string(layout.levels.size()) + " levels, least " + number_text(magnitudes.front()) +
                       ", largest " + number_text(magnitudes.back());
  return layout;
}

// As float32. Equal intervals where the design's levels would not be normal numbers, or not distinct.
std::vector<float> stored_magnitudes(const std::vector<double>& levels, bool is_uniform, unsigned bits, float max) {
  const auto intervals = (1U << bits) - 1;
  const auto top = std::max(0x1p-149F, static_cast<float>(levels.back()));  // a step of 0 says that all is 0
  if (!is_uniform) {
    std::vector<float> rounded(levels.size());
    std::transform(levels.begin(), levels.end(), rounded.begin(),
                   [](double level) { return static_cast<float>(level); });
    if (are_magnitudes(rounded)) return rounded;
  } else if (top < max) {
    return magnitudes_of_half_step(clamp_step(levels.back() / intervals), bits);
  }
  std::vector<float> equal = magnitudes_of_half_step(step_for_range(top, intervals), bits);
  if (!is_uniform) equal.back() = std::min(equal.back(), kMaxListed);
  return equal;
}

}  // namespace

std::string_view TruncatedScheme::promises() const {
  return "with a the largest level: unbiased for the values limited to [-a, a], those between levels lo and hi of\n"
         "variance (x - lo)(hi - x), those beyond a without error; for the values themselves nothing is promised\n"
         "where the largest is beyond a";
}

TruncationDesign TruncatedScheme::design_of(const Params& params) const {
  const bool always_power_law = params.find("density") == params.end();
  return {shape_, always_power_law ? TruncationDesign::power_law : density_named(choice_of(params, "density")),
          rule_named(choice_of(params, "rule")), bits_of(params)};
}

std::unique_ptr<Encoder> TruncatedScheme::prepare(const Tensor& tensor, const Params& params,
                                                  const Inputs& inputs) const {
  const Extent extent = scan_extent(tensor, inputs);
  std::vector<float> magnitudes;
  if (extent.max > 0) {
    const std::vector<double> levels = scan_levels(design_of(params), tensor, inputs, extent);
    magnitudes = stored_magnitudes(levels, is_uniform(), bits_of(params), extent.max);
  }
  LevelChoice choice;
  choice.clip = !magnitudes.empty() && magnitudes.back() < extent.max;
  choice.exceptions = extent.irregular > 0;
  return std::make_unique<LevelEncoder>(tensor, layout_of(magnitudes, is_uniform()), inputs, std::move(choice));
}

std::unique_ptr<Decoder> TruncatedScheme::restore(const Params& params, ByteReader& stored,
                                                  const Inputs& inputs) const {
  const unsigned bits = bits_of(params);
  std::vector<float> magnitudes;
  ByteReader ahead = stored;
  if (std::bit_cast<uint32_t>(ahead.get<float>()) == 0) {
    stored = ahead;
  } else if (!is_uniform()) {
    magnitudes = take_magnitudes(stored, size_t{1} << (bits - 1));
  } else {
    magnitudes = magnitudes_of_half_step(stored.get<float>(), bits);
    if (!(magnitudes.front() >= kMinHalfStep && magnitudes.back() <= kMaxMultiple)) {
      stored.fail("holds a half step that is not 0, or has levels beyond 2^-126 to 2^127");
    }
  }
  return LevelDecoder::restore(layout_of(magnitudes, is_uniform()), stored, inputs);
}

}  // namespace gradcodec
