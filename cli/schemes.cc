// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/numbers.h"
#include "codec/registry.h"

namespace gradcodec {
namespace {

using Json = nlohmann::ordered_json;

struct SchemesArguments {
  std::string name;
  bool json = false;
};

constexpr std::array<const char*, 5> kKinds = {"integer", "real", "choice", "list", "amount"};

std::string indented(std::string_view text) {
  std::string out = "  ";
  for (const char c : text) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out;
}

void print_params(const Scheme& scheme) {
  if (scheme.params().empty()) std::printf("  none\n");
  for (const ParamSpec& spec : scheme.params()) {
    const std::string fallback = spec.required            ? "required"
                                 : !spec.fallback.empty() ? "default " + std::string(spec.fallback)
                                                          : "optional";
    std::printf("  %-8s %s; %s; %s\n", std::string(spec.name).c_str(), std::string(spec.help).c_str(),
                range_text(spec).c_str(), fallback.c_str());
  }
}

void print_scheme(const Scheme& scheme) {
  std::printf("%s: %s\n\nparameters\n", std::string(scheme.name()).c_str(), std::string(scheme.summary()).c_str());
  print_params(scheme);
  std::printf("\npromises\n%s\n\nsource\n%s\n", indented(scheme.promises()).c_str(), indented(scheme.source()).c_str());
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
          {"promises", scheme.promises()},
          {"source", scheme.source()}};
}

int run_schemes(const SchemesArguments& args) {
  if (const Coder* coder = find_coder(std::string_view(args.name)); coder != nullptr && !args.json) {
    std::printf("coder %s (id %d): %s\n", std::string(coder->name()).c_str(), coder->id(),
                std::string(coder->summary()).c_str());
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
    std::printf("schemes (gradcodec schemes NAME says more)\n");
    for (const Scheme* scheme : all_schemes()) {
      std::printf("  %-8s %s\n", std::string(scheme->name()).c_str(), std::string(scheme->summary()).c_str());
    }
    std::printf("\ncoders (--coder)\n");
    for (const Coder* coder : all_coders()) {
      std::printf("  %-11s %s\n", std::string(coder->name()).c_str(), std::string(coder->summary()).c_str());
    }
  }
  return 0;
}

}  // namespace

Command add_schemes(CLI::App& root) {
  auto args = std::make_shared<SchemesArguments>();
  CLI::App& app = *root.add_subcommand("schemes", "what schemes and coders there are: parameters, promises, source");
  app.add_option("name", args->name, "one scheme or coder");
  app.add_flag("--json", args->json, "for programs");
  app.footer("Examples:\n  gradcodec schemes\n  gradcodec schemes dqsg");
  return {&app, [args] { return run_schemes(*args); }};
}

}  // namespace gradcodec
