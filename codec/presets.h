// Names of published methods that are compositions of schemes: `qsparse:k=1%,s=4` is `ef/topk:k=1%/shrink/qsgd:...`. A
// file holds the composition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "codec/params.h"

namespace gradcodec {

// Parameters as they were written, each of a key that the preset has, with defaults filled in.
using ParamTexts = std::map<std::string, std::string, std::less<>>;

struct Preset {
  std::string_view name;
  std::span<const ParamSpec> params;
  std::string_view summary, source;
  std::string (*text)(const ParamTexts& params);  // the scheme text that it stands for
};

std::span<const Preset> all_presets();

// Null if there is none of that name.
const Preset* find_preset(std::string_view name);

// The composition that `text` stands for, if a preset's name is in front; else `text` itself. Throws Error(usage).
std::string expand_preset(std::string_view text);

}  // namespace gradcodec
