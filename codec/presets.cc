// SPDX-License-Identifier: Apache-2.0
#include "codec/presets.h"

#include <array>

#include "codec/error.h"

namespace gradcodec {
namespace {

constexpr ParamSpec kLevels = {.kind = ParamSpec::integer,
                               .name = "s",
                               .help = "levels between 0 and the norm",
                               .min = 1,
                               .max = 32767,
                               .required = true,
                               .example = "4"};
constexpr ParamSpec kKept = {.kind = ParamSpec::amount,
                             .name = "k",
                             .help = "how many elements are sent, or how many in a hundred",
                             .min = 1,
                             .max = 0x1p53,
                             .required = true,
                             .example = "1%"};
constexpr ParamSpec kAxis = {.kind = ParamSpec::choice,
                             .name = "axis",
                             .help = "what has a scale of its own: the tensor, or each row of it",
                             .choices = "tensor|row",
                             .fallback = "tensor"};

constexpr std::array<ParamSpec, 5> kEcQsgd = {{
    kLevels,
    {.kind = ParamSpec::real,
     .name = "alpha",
     .help = "how much of what is remembered is added [beta / (1 + omega of qsgd)]",
     .min = 0,
     .max = 1},
    {.kind = ParamSpec::real, .name = "beta", .help = "how much of it stays", .min = 0, .max = 1, .fallback = "1"},
    {.kind = ParamSpec::choice, .name = "norm", .help = "as in qsgd", .choices = "l2|max", .fallback = "l2"},
    {.kind = ParamSpec::integer, .name = "bucket", .help = "as in qsgd", .min = 0, .max = 4194304},
}};

constexpr std::array<ParamSpec, 3> kQsparse = {{
    kKept,
    {.kind = ParamSpec::integer,
     .name = "s",
     .help = "levels between 0 and the norm of what is kept",
     .min = 1,
     .max = 32767,
     .fallback = "4"},
    {.kind = ParamSpec::choice,
     .name = "variant",
     .help = "scaled: Q / (1 + beta); plain: Q; sign: signs and one magnitude",
     .choices = "scaled|plain|sign",
     .fallback = "scaled"},
}};

constexpr std::array<ParamSpec, 1> kWithAxis = {{kAxis}};

constexpr std::array<ParamSpec, 2> kDgc = {{
    kKept,
    {.kind = ParamSpec::real, .name = "m", .help = "the momentum", .min = 0, .max = 1, .fallback = "0.9"},
}};

std::string optional(const ParamTexts& params, std::string_view key) {
  const auto found = params.find(key);
  return found == params.end() ? "" : "," + found->first + "=" + found->second;
}

std::string ec_qsgd(const ParamTexts& params) {
  return "ec:beta=" + params.at("beta") + optional(params, "alpha") + "/qsgd:s=" + params.at("s") +
         optional(params, "norm") + optional(params, "bucket");
}

std::string qsparse(const ParamTexts& params) {
  const std::string kept = "ef/topk:k=" + params.at("k"), quantized = "qsgd:s=" + params.at("s") + ",norm=l2,bucket=0";
  if (params.at("variant") == "sign") return kept + "/sign";
  return kept + (params.at("variant") == "scaled" ? "/shrink/" : "/") + quantized;
}

std::string onebit_ef(const ParamTexts& params) { return "ef/onebit:axis=" + params.at("axis"); }
std::string sign_ef(const ParamTexts& params) { return "ef/sign:axis=" + params.at("axis"); }
std::string dgc(const ParamTexts& params) { return "momentum:m=" + params.at("m") + "/topk:k=" + params.at("k"); }

constexpr std::array<Preset, 5> kPresets = {{
    {"ec-qsgd", kEcQsgd, "error-compensated QSGD (ECQ-SGD)", "Wu et al., ICML 2018 (arXiv 1806.08054)", ec_qsgd},
    {"qsparse", kQsparse, "Qsparse-local-SGD's operators, with memory", "Basu et al., NeurIPS 2019 (arXiv 1906.02367)",
     qsparse},
    {"onebit-ef", kWithAxis, "1-bit SGD: two means and error feedback", "Seide et al., Interspeech 2014", onebit_ef},
    {"sign-ef", kWithAxis, "EF-signSGD: scaled signs and error feedback", "Karimireddy et al., arXiv 1901.09847",
     sign_ef},
    {"dgc", kDgc, "deep gradient compression: momentum, top-k, factor masking", "Lin et al., arXiv 1712.01887", dgc},
}};

[[noreturn]] void fail(const Preset& preset, const std::string& text) {
  throw Error(Exit::usage, "scheme '" + std::string(preset.name) + "': " + text);
}

void take_item(const Preset& preset, std::string_view item, ParamTexts& params) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) fail(preset, "'" + escaped(item) + "' is not KEY=VALUE");
  const std::string_view key = item.substr(0, equals), value = item.substr(equals + 1);
  std::string known;
  for (const ParamSpec& spec : preset.params) {
    if (spec.name == key) {
      parse_value(spec, value);
      if (!params.emplace(key, value).second) fail(preset, "'" + escaped(key) + "' is given twice");
      return;
    }
    known += (known.empty() ? "" : ", ") + std::string(spec.name);
  }
  fail(preset, "there is no parameter '" + escaped(key) + "': it takes " + known);
}

}  // namespace

std::span<const Preset> all_presets() { return kPresets; }

const Preset* find_preset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

std::string expand_preset(std::string_view text) {
  const size_t colon = text.find(':');
  const size_t end = text.find_first_of(":/+");
  const Preset* preset = find_preset(text.substr(0, end));
  if (preset == nullptr) return std::string(text);
  if (text.find_first_of("/+") != std::string_view::npos) {
    fail(*preset, "nothing stands behind it or beside it: it is a whole composition already");
  }
  ParamTexts params;
  for (std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1); !rest.empty();) {
    const size_t comma = rest.find(',');
    take_item(*preset, rest.substr(0, comma), params);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  for (const ParamSpec& spec : preset->params) {
    if (params.count(spec.name) != 0) continue;
    if (spec.required) {
      const std::string key(spec.name);
      fail(*preset,
           "it needs " + key + "=..., " + range_text(spec) + ": for example " + key + "=" + example_text(spec));
    }
    if (!spec.fallback.empty()) params.emplace(spec.name, spec.fallback);
  }
  return preset->text(params);
}

}  // namespace gradcodec
