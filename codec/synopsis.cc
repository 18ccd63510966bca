// SPDX-License-Identifier: Apache-2.0
#include "codec/synopsis.h"

#include <algorithm>
#include <array>

#include "codec/registry.h"

namespace gradcodec {
namespace {

constexpr std::string_view kBelow = "/qsgd:s=4";

// Values for an encoder to make a promise of, one far from the others: schemes that limit values limit it.
class Few final : public Tensor {
 public:
  Few() {
    for (size_t i = 0; i < values_.size(); ++i) {
      const float magnitude = static_cast<float>(i % 16 + 1) / 16;
      values_[i] = i % 2 == 0 ? magnitude : -magnitude;
    }
    values_[0] = 1000;
  }
  uint64_t size() const override { return values_.size(); }
  std::span<const uint64_t> shape() const override { return kShape; }
  std::span<const float> read(Range range, std::span<float>) const override {
    return std::span(values_).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
  }

 private:
  static constexpr std::array<uint64_t, 1> kShape = {256};
  std::array<float, kShape[0]> values_;
};

std::string placeholder(const ParamSpec& spec) {
  switch (spec.kind) {
    case ParamSpec::integer:
      return "N";
    case ParamSpec::list:
      return "N-N";
    case ParamSpec::amount:
      return "N|N%";
    case ParamSpec::choice:
      return std::string(spec.choices);
    case ParamSpec::real:
      break;
  }
  return "F";
}

std::string written(const ParamSpec& spec, const std::string& value) { return std::string(spec.name) + "=" + value; }

// With the required parameters and `more`, if that is one.
std::string text_with(const Scheme& scheme, const ParamSpec* more) {
  std::string text(scheme.name());
  char separator = ':';
  for (const ParamSpec& spec : scheme.params()) {
    if (!spec.required && &spec != more) continue;
    text += separator + written(spec, example_text(spec));
    separator = ',';
  }
  return text + std::string(scheme.inner() == Inner::required ? kBelow : "");
}

bool suffices(const std::string& text) {
  try {
    parse_scheme(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Optional parameters of which one must be given: `nmse` or `step`. Mostly none.
std::vector<const ParamSpec*> alternatives(const Scheme& scheme) {
  std::vector<const ParamSpec*> out;
  if (suffices(text_with(scheme, nullptr))) return out;
  for (const ParamSpec& spec : scheme.params()) {
    if (!spec.required && suffices(text_with(scheme, &spec))) out.push_back(&spec);
  }
  return out;
}

}  // namespace

namespace {

// `either`: optional ones, of which one must be given.
std::string shortened(std::span<const ParamSpec> params, const std::vector<const ParamSpec*>& either) {
  std::string needed, optional;
  const auto add = [&](const ParamSpec& spec, std::string_view separator) {
    needed += (needed.empty() ? "" : std::string(separator)) + written(spec, placeholder(spec));
  };
  for (const ParamSpec& spec : params) {
    if (spec.required) add(spec, ",");
  }
  for (size_t i = 0; i < either.size(); ++i) add(*either[i], i == 0 ? "," : "|");
  for (const ParamSpec& spec : params) {
    if (spec.required || std::find(either.begin(), either.end(), &spec) != either.end()) continue;
    const std::string comma = needed.empty() && optional.empty() ? "" : ",";
    optional += "[" + comma + written(spec, placeholder(spec)) + "]";
  }
  return needed + optional;
}

}  // namespace

std::string short_params(std::span<const ParamSpec> params) { return shortened(params, {}); }

std::string example_params(std::span<const ParamSpec> params) {
  std::string text;
  for (const ParamSpec& spec : params) {
    if (spec.required) text += (text.empty() ? ":" : ",") + written(spec, example_text(spec));
  }
  return text;
}

std::string short_params(const Scheme& scheme) {
  const Inner inner = scheme.inner();
  return shortened(scheme.params(), alternatives(scheme)) + (inner == Inner::required   ? "/SCHEME"
                                                             : inner == Inner::optional ? "[/SCHEME]"
                                                                                        : "");
}

std::string example_of(const Scheme& scheme) {
  const std::vector<const ParamSpec*> either = alternatives(scheme);
  return text_with(scheme, either.empty() ? nullptr : either[0]);
}

std::string promise_word(const Scheme& scheme) {
  if (scheme.carries_bytes()) return "exact";
  if (!scheme.vectors().empty()) return scheme.decoder_remembers() ? "unbiased, with memory" : "with memory";
  constexpr uint64_t kChunk = 4096;
  const Few values;
  Inputs inputs{Random({}, 0), kFirstStage, kChunk};
  inputs.size = values.size();
  inputs.side = &values;  // for schemes that take some
  // Rehearsed, so that a list takes no secret numbers from the system.
  const SchemeChoice choice = parse_scheme(example_of(scheme)).rehearsed();
  const std::unique_ptr<Encoder> encoder = choice.prepare(values, inputs);
  const Promise promise = encoder->promise();
  if (scheme.inner() == Inner::required && promise.unbiased) return "as below";
  if (promise.unbiased && scheme.takes_side()) return "unbiased, if near";
  return std::string(promise_word(promise));
}

std::string_view promise_word(const Promise& promise) {
  if (promise.unbiased) return promise.target == nullptr ? "unbiased" : "unbiased, clipped";
  if (promise.delta) return "contraction";
  if (promise.inner_product) return "exact along x";
  return promise.max_error ? "biased, bounded" : "biased";
}

std::string_view lesser_promise(std::string_view a, std::string_view b) {
  constexpr std::array<std::string_view, 7> kFromMost = {
      "exact", "unbiased", "unbiased, clipped", "exact along x", "contraction", "biased, bounded", "biased"};
  return std::find(kFromMost.begin(), kFromMost.end(), a) < std::find(kFromMost.begin(), kFromMost.end(), b) ? b : a;
}

}  // namespace gradcodec
