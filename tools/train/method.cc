// SPDX-License-Identifier: Apache-2.0
#include "tools/train/method.h"

#include <array>
#include <span>

#include "codec/error.h"

namespace gradcodec::train {
namespace {

constexpr ParamSpec kRows = {
    .kind = ParamSpec::integer, .name = "rows", .help = "of the sketch", .min = 1, .max = 63, .fallback = "5"};
constexpr ParamSpec kColumns = {.kind = ParamSpec::integer,
                                .name = "cols",
                                .help = "of the sketch",
                                .min = 1,
                                .max = 0x1p26,
                                .required = true,
                                .example = "2400"};
constexpr ParamSpec kTaken = {.kind = ParamSpec::amount,
                              .name = "k",
                              .help = "how many parameters change in a step",
                              .min = 1,
                              .max = 0x1p53,
                              .required = true,
                              .example = "1%"};
constexpr ParamSpec kMomentum = {
    .kind = ParamSpec::real, .name = "m", .help = "the momentum", .min = 0, .max = 1, .fallback = "0.9"};

constexpr std::array<ParamSpec, 1> kLocal = {{{.kind = ParamSpec::integer,
                                               .name = "h",
                                               .help = "local steps before each message",
                                               .min = 1,
                                               .max = 10000,
                                               .required = true,
                                               .example = "4"}}};
constexpr std::array<ParamSpec, 2> kGossip = {
    {{.kind = ParamSpec::real,
      .name = "eps",
      .help = "how far a model moves to its neighbours'",
      .min = 0.0001,
      .max = 1,
      .required = true,
      .example = "0.3"},
     {.kind = ParamSpec::real,
      .name = "spread",
      .help = "speeds are from 1 - spread to 1 + spread: samples that are done before the deadline",
      .min = 0,
      .max = 1,
      .fallback = "0.5"}}};
constexpr std::array<ParamSpec, 5> kSketched = {{kRows,
                                                 kColumns,
                                                 kTaken,
                                                 {.kind = ParamSpec::integer,
                                                  .name = "p",
                                                  .help = "candidates for each that is taken",
                                                  .min = 1,
                                                  .max = 10000,
                                                  .fallback = "4"},
                                                 kMomentum}};
constexpr std::array<ParamSpec, 5> kFetch = {
    {kRows,
     kColumns,
     kTaken,
     kMomentum,
     {.kind = ParamSpec::choice,
      .name = "sent",
      .help = "what becomes of what was sent: subtracted, or its cells cleared",
      .choices = "subtract|clear",
      .fallback = "subtract"}}};

struct Protocol {
  std::string_view name;
  Method::Kind kind;
  std::span<const ParamSpec> params;
  bool has_scheme;
};
constexpr std::array<Protocol, 5> kProtocols = {{
    {"local", Method::local, kLocal, true},
    {"svrg", Method::svrg, {}, true},
    {"gossip", Method::gossip, kGossip, true},
    {"sketched-sgd", Method::sketched, kSketched, false},
    {"fetch-sgd", Method::fetch, kFetch, false},
}};

[[noreturn]] void fail(std::string_view name, const std::string& text) {
  throw Error(Exit::usage, "method '" + std::string(name) + "': " + text);
}

Params parse_params(const Protocol& protocol, std::string_view text) {
  Params params;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equals = std::min(item.find('='), item.size());
    const ParamSpec* found = nullptr;
    std::string known;
    for (const ParamSpec& spec : protocol.params) {
      if (spec.name == item.substr(0, equals)) found = &spec;
      known += (known.empty() ? "" : ", ") + std::string(spec.name);
    }
    if (found == nullptr || equals == item.size()) {
      fail(protocol.name, "'" + escaped(item) + "' is not KEY=VALUE of " + (known.empty() ? "nothing" : known));
    }
    if (!params.emplace(found->name, parse_value(*found, item.substr(equals + 1))).second) {
      fail(protocol.name, "'" + std::string(found->name) + "' is given twice");
    }
  }
  for (const ParamSpec& spec : protocol.params) {
    if (params.contains(spec.name)) continue;
    if (spec.required) fail(protocol.name, "needs " + std::string(spec.name) + "=" + example_text(spec));
    params.emplace(spec.name, parse_value(spec, spec.fallback));
  }
  return params;
}

}  // namespace

Method parse_method(std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string_view head = text.substr(0, slash), name = head.substr(0, head.find(':'));
  Method method;
  method.scheme_text = text;
  if (name == "ndqsg") method.kind = Method::nested;
  for (const Protocol& protocol : kProtocols) {
    if (protocol.name != name) continue;
    method.kind = protocol.kind;
    method.params = parse_params(protocol, head.substr(std::min(head.size(), name.size() + 1)));
    method.scheme_text = text.substr(std::min(text.size(), slash + 1));
    if (method.scheme_text.empty() == protocol.has_scheme) {
      fail(name, protocol.has_scheme ? "stands over a scheme, as in " + std::string(name) + "/SCHEME"
                                     : "stands over no scheme");
    }
  }
  return method;
}

}  // namespace gradcodec::train
