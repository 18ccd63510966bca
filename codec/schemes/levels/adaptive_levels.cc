// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/levels/adaptive_levels.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "codec/levels/fitted.h"
#include "codec/levels/spread.h"
#include "codec/schemes/levels/norm_levels.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 2> kParams = {{inner_levels_param(126), norm_bucket_param("8192")}};

constexpr double kLeastGain = 0x1p-20;  // of the mean square: what cells hide is less

unsigned s_of(const Params& params) { return static_cast<unsigned>(integer_of(params, "s")); }
uint64_t bucket_of(const Params& params) { return static_cast<uint64_t>(integer_of(params, "bucket")); }

std::vector<float> fallback_magnitudes(unsigned s) { return stored_magnitudes(exponential_levels(s)); }

std::string text_of(std::span<const float> inner) {
  constexpr size_t kShown = 8;
  std::string text = "levels";
  for (const float level : inner.first(std::min(kShown, inner.size()))) {
    std::array<char, 32> room;
    const auto end = std::to_chars(room.data(), room.data() + room.size(), level, std::chars_format::general, 4).ptr;
    text += ' ' + std::string(room.data(), end);
  }
  return inner.size() > kShown ? text + " ..." : text;
}

// The table's last magnitude, 1, is not stored.
LevelLayout layout_of(const std::vector<float>& magnitudes, uint64_t bucket) {
  LevelLayout layout = norm_layout(magnitudes, bucket);
  const std::span<const float> inner = std::span(magnitudes).first(magnitudes.size() - 1);
  put_magnitudes(layout.stored, inner);
  layout.fitted.assign(inner.begin(), inner.end());
  const bool fell_back = magnitudes == fallback_magnitudes(static_cast<unsigned>(inner.size()));
  layout.description = fell_back ? "fallback to exponential levels" : text_of(inner);
  return layout;
}

std::vector<float> with_one(std::span<const float> inner) {
  std::vector<float> magnitudes(inner.begin(), inner.end());
  magnitudes.push_back(1);
  return magnitudes;
}

bool are_table(std::span<const float> magnitudes) {
  return are_magnitudes(magnitudes) && magnitudes.front() >= kLeastInnerLevel;
}

std::vector<float> kept_magnitudes(std::span<const float> inner, unsigned s) {
  if (inner.size() != s) {
    throw Error(Exit::usage, std::to_string(inner.size()) + " levels are kept, but s = " + std::to_string(s));
  }
  std::vector<float> magnitudes = with_one(inner);
  if (!are_table(magnitudes)) {
    throw Error(Exit::bad_input, "the levels that are kept do not increase from 2^-60 to below 1");
  }
  return magnitudes;
}

// Levels follow from values and norms alone, without a draw, so that nothing is biased by the choice.
std::vector<float> fitted_magnitudes(const Tensor& tensor, const Inputs& inputs, uint64_t bucket, unsigned s, float max,
                                     LevelFit fit) {
  std::vector<float> fallback = fallback_magnitudes(s);
  const std::optional<HistogramLaw> law = scan_histogram(tensor, inputs, bucket, max);
  if (!law) return fallback;
  const NormalMixture model(scan_spread(tensor, inputs, bucket));
  const std::vector<double> inner = fit(model, *law, s);
  const double gain = expected_variance(*law, exponential_levels(s)) - expected_variance(*law, inner);
  return gain > kLeastGain * law->at(1).moment2 ? stored_magnitudes(inner) : fallback;
}

}  // namespace

std::span<const ParamSpec> AdaptiveLevels::params() const { return kParams; }

std::unique_ptr<Encoder> AdaptiveLevels::prepare(const Tensor& tensor, const Params& params,
                                                 const Inputs& inputs) const {
  const Extent extent = scan_extent(tensor, inputs);
  const uint64_t bucket = bucket_of(params);
  const std::vector<float> magnitudes = inputs.kept_levels.empty()
                                            ? fitted_magnitudes(tensor, inputs, bucket, s_of(params), extent.max, fit_)
                                            : kept_magnitudes(inputs.kept_levels, s_of(params));
  return prepare_by_norm(tensor, inputs, layout_of(magnitudes, bucket), extent);
}

std::unique_ptr<Decoder> AdaptiveLevels::restore(const Params& params, ByteReader& stored, const Inputs& inputs) const {
  const std::vector<float> magnitudes = with_one(take_magnitudes(stored, s_of(params)));
  if (!are_table(magnitudes)) {
    stored.fail("holds levels that do not increase from 2^-60 to below 1");
  }
  return LevelDecoder::restore(layout_of(magnitudes, bucket_of(params)), stored, inputs);
}

}  // namespace gradcodec
