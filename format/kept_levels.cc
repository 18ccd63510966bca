// SPDX-License-Identifier: Apache-2.0
#include "format/kept_levels.h"

#include <algorithm>

namespace gradcodec {
namespace {

// Those of the scheme, or of the first below it that has some. Parts of a sum keep none: they would not be told apart.
std::vector<float> levels_of(const Decoder* decoder) {
  for (; decoder != nullptr && decoder->remainder() == nullptr; decoder = decoder->inner()) {
    const std::span<const float> levels = decoder->fitted_levels();
    if (!levels.empty()) return {levels.begin(), levels.end()};
  }
  return {};
}

std::vector<float> levels_for(const StoredMessage& message, const std::string& name, const std::string& scheme) {
  const std::string quoted = "'" + escaped(name) + "'";
  const auto fail = [&](const std::string& text) { throw Error(Exit::usage, text).in_file(message.file().name()); };
  const std::vector<SchemaTensor>& tensors = message.schema().tensors;
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const SchemaTensor& t) { return t.info.name == name; });
  if (found == tensors.end()) fail("there is no tensor " + quoted + ", whose levels are to be kept");
  const std::string& stored = message.schema().schemes[found->scheme].text;
  if (stored != scheme) fail("tensor " + quoted + " is coded by '" + stored + "', not by '" + scheme + "'");
  std::vector<float> levels = levels_of(message.decoder(static_cast<size_t>(found - tensors.begin())));
  if (levels.empty()) fail("the scheme of tensor " + quoted + ", '" + stored + "', fits no levels that could be kept");
  return levels;
}

}  // namespace

KeptLevels keep_levels(const StoredMessage& message, const Schema& schema) {
  KeptLevels kept;
  for (const SchemaTensor& tensor : schema.tensors) {
    const std::string& scheme = schema.schemes[tensor.scheme].text;
    if (scheme != "raw") kept.emplace(tensor.info.name, levels_for(message, tensor.info.name, scheme));
  }
  return kept;
}

}  // namespace gradcodec
