// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/numbers.h"
#include "codec/presets.h"
#include "codec/registry.h"
#include "codec/synopsis.h"

namespace gradcodec {
namespace {

using Json = nlohmann::ordered_json;

struct SchemesArguments {
  std::string name;
  bool json = false;
};

constexpr std::array<const char*, 5> kKinds = {"integer", "real", "choice", "list", "amount"};

std::string state_text(const Scheme& scheme) {
  if (scheme.vectors().empty()) return "none: each message stands alone";
  std::string vectors;
  for (const std::string_view name : scheme.vectors()) vectors += (vectors.empty() ? "" : ", ") + std::string(name);
  return vectors + ": as many float64 as there are values, in the file of --state; " +
         (scheme.decoder_remembers() ? "both sides keep it" : "the encoder keeps it");
}

std::string spec_page(const Scheme& scheme) { return "spec/schemes/" + std::string(scheme.name()) + ".md"; }

std::string example_command(const Scheme& scheme) {
  const std::string beside = scheme.name() == "at" ? " --at round.indices" : "";
  return "gradcodec compress grads.h5 --scheme " + example_of(scheme) + beside;
}

// A parameter's name, what it does, what it may be and what it is if not given.
void print_param(const ParamSpec& spec, size_t width) {
  const std::string name(spec.name);
  const std::string fallback = spec.required            ? "required"
                               : !spec.fallback.empty() ? "default " + std::string(spec.fallback)
                                                        : "optional";
  std::printf("  %-*s  %s; %s; %s\n", static_cast<int>(width), name.c_str(), std::string(spec.help).c_str(),
              range_text(spec).c_str(), fallback.c_str());
}

void print_params(std::span<const ParamSpec> params) {
  if (params.empty()) std::printf("  none\n");
  size_t width = 0;
  for (const ParamSpec& spec : params) width = std::max(width, spec.name.size());
  for (const ParamSpec& spec : params) print_param(spec, width);
}

void print_part(const char* heading, std::string_view text) {
  std::printf("\n%s\n  ", heading);
  for (const char c : text) std::printf(c == '\n' ? "\n  " : "%c", c);
  std::printf("\n");
}

void print_scheme(const Scheme& scheme) {
  std::printf("%s: %s\n\nparameters\n", std::string(scheme.name()).c_str(), std::string(scheme.summary()).c_str());
  print_params(scheme.params());
  if (scheme.inner() == Inner::required) std::printf("  a scheme behind it, after '/'\n");
  if (scheme.inner() == Inner::optional) std::printf("  perhaps a scheme behind it, after '/', for what it keeps\n");
  print_part(("promises (" + promise_word(scheme) + ")").c_str(), scheme.promises());
  print_part("state from step to step", state_text(scheme));
  print_part("source", scheme.source());
  print_part("example", example_command(scheme));
  print_part("specification", spec_page(scheme));
}

void print_preset(const Preset& preset) {
  std::printf("%s: %s\n\nparameters\n", std::string(preset.name).c_str(), std::string(preset.summary).c_str());
  print_params(preset.params);
  const std::string example = std::string(preset.name) + example_params(preset.params);
  print_part("source", preset.source);
  print_part("example", "gradcodec compress grads.h5 --state worker.state --scheme " + example);
  print_part("which stands for", expand_preset(example));
}

void print_list() {
  size_t names = 0, words = 0;
  for (const Scheme* scheme : all_schemes()) {
    names = std::max(names, scheme->name().size());
    words = std::max(words, promise_word(*scheme).size());
  }
  const auto width = [](size_t size) { return static_cast<int>(size); };
  std::printf("schemes, what they promise, their parameters: N a whole number, F any, [] may be left out\n");
  std::printf("(gradcodec schemes NAME says more)\n");
  for (const Scheme* scheme : all_schemes()) {
    std::printf("  %-*s  %-*s  %s\n", width(names), std::string(scheme->name()).c_str(), width(words),
                promise_word(*scheme).c_str(), std::string(scheme->summary()).c_str());
    if (const std::string params = short_params(*scheme); !params.empty()) {
      std::printf("  %-*s  %s\n", width(names), "", params.c_str());
    }
  }
  std::printf(
      "\nA+B: B codes what A leaves, as in lowrank:rank=8+dither:nmse=0.1; unbiased if B is (spec/schemes/plus.md)\n");
  names = 0;
  for (const Preset& preset : all_presets()) names = std::max(names, preset.name.size());
  std::printf("\ncompositions that have a name\n");
  for (const Preset& preset : all_presets()) {
    std::printf("  %-*s  %s\n", width(names), std::string(preset.name).c_str(), std::string(preset.summary).c_str());
    std::printf("  %-*s  %s\n", width(names), "", short_params(preset.params).c_str());
  }
  names = 0;
  for (const Coder* coder : all_coders()) names = std::max(names, coder->name().size());
  std::printf("\ncoders (--coder)\n");
  for (const Coder* coder : all_coders()) {
    std::printf("  %-*s  %s\n", width(names), std::string(coder->name()).c_str(),
                std::string(coder->summary()).c_str());
  }
}

Json scheme_json(const Scheme& scheme) {
  Json params = Json::array();
  for (const ParamSpec& spec : scheme.params()) {
    Json param = {{"name", spec.name}, {"kind", kKinds[spec.kind]}, {"help", spec.help}};
    if (spec.kind == ParamSpec::choice) {
      param["choices"] = spec.choices;
    } else {
      param["min"] = spec.min;
      param["max"] = spec.max;
    }
    param["required"] = spec.required;
    param["example"] = example_text(spec);
    if (!spec.fallback.empty()) param["default"] = spec.fallback;
    params.push_back(std::move(param));
  }
  return {{"name", scheme.name()},
          {"summary", scheme.summary()},
          {"params", std::move(params)},
          {"short_params", short_params(scheme)},
          {"promise", promise_word(scheme)},
          {"promises", scheme.promises()},
          {"state", state_text(scheme)},
          {"source", scheme.source()},
          {"example", example_command(scheme)},
          {"specification", spec_page(scheme)}};
}

int run_schemes(const SchemesArguments& args) {
  if (const Coder* coder = find_coder(std::string_view(args.name)); coder != nullptr && !args.json) {
    std::printf("coder %s (id %d): %s\n", std::string(coder->name()).c_str(), coder->id(),
                std::string(coder->summary()).c_str());
    return 0;
  }
  if (const Preset* preset = find_preset(args.name); preset != nullptr && !args.json) {
    print_preset(*preset);
    return 0;
  }
  const Scheme* one = args.name.empty() ? nullptr : &scheme_named(args.name);
  if (args.json) {
    Json out = Json::array();
    for (const Scheme* scheme : all_schemes()) {
      if (one == nullptr || one == scheme) out.push_back(scheme_json(*scheme));
    }
    std::printf("%s\n", out.dump(2).c_str());
  } else if (one != nullptr) {
    print_scheme(*one);
  } else {
    print_list();
  }
  return 0;
}

}  // namespace

Command add_schemes(CLI::App& root) {
  auto args = std::make_shared<SchemesArguments>();
  CLI::App& app = *root.add_subcommand("schemes", "what schemes and coders there are: parameters, promises, source");
  app.add_option("name", args->name, "one scheme or coder")->type_name("NAME");
  app.add_flag("--json", args->json, "for programs");
  app.footer("Examples:\n  gradcodec schemes\n  gradcodec schemes dqsg");
  return {&app, [args] { return run_schemes(*args); }};
}

}  // namespace gradcodec
