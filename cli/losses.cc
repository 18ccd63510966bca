// SPDX-License-Identifier: Apache-2.0
#include "cli/losses.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "codec/number_text.h"
#include "format/crew.h"
#include "format/group_attribute.h"
#include "format/trace_names.h"

namespace gradcodec {
namespace {

constexpr std::string_view kScheme = "adaquant", kLoss = "loss", kFirst = "loss0";

bool gives(std::string_view stage, std::string_view key) {
  for (size_t at = stage.find_first_of(":,"); at != std::string_view::npos; at = stage.find(',', at + 1)) {
    const std::string_view item = stage.substr(at + 1);
    if (item.starts_with(key) && item.substr(key.size()).starts_with('=')) return true;
  }
  return false;
}

std::string_view last_stage(std::string_view text) {
  const size_t slash = text.rfind('/');
  return slash == std::string_view::npos ? text : text.substr(slash + 1);
}

std::string with(const std::string& text, std::string_view key, double value) {
  std::string number = number_text(value);
  std::erase(number, '+');  // of an exponent: in a scheme's text it would stand for a sum
  return text + (last_stage(text).find(':') == std::string_view::npos ? ":" : ",") + std::string(key) + "=" + number;
}

const ParamSpec& spec_of(std::string_view key) {
  const std::span<const ParamSpec> specs = scheme_named(kScheme).params();
  return *std::find_if(specs.begin(), specs.end(), [&](const ParamSpec& spec) { return spec.name == key; });
}

// read(), and what to do where that fails.
template <typename Read>
auto mended(const std::string& mend, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.code(), error.text() + ": another --loss-attribute, or " + mend + " in the scheme");
  }
}

// The losses of a dump, and what to do where one is not there.
class Losses {
 public:
  Losses(const Source& source, const std::string& attribute, const std::string& mend)
      : attribute_(attribute), mend_(mend), numbers_(mended(mend, [&] { return GroupAttribute(source, attribute); })) {}

  // Of the tensor's step, in the range of the parameter `key`.
  double of(const TensorInfo& tensor, std::string_view key) const {
    return in_tensor(tensor, [&] { return mended(mend_, [&] { return checked(numbers_.of(tensor), key); }); });
  }

 private:
  double checked(const GroupAttribute::Number& number, std::string_view key) const {
    const ParamSpec& spec = spec_of(key);
    if (number.value >= spec.min && number.value <= spec.max) return number.value;
    throw Error(Exit::bad_input, "attribute '" + escaped(attribute_) + "' of group '" + escaped(number.group) +
                                     "' is " + number_text(number.value) + ", and a loss is " + range_text(spec));
  }

  std::string attribute_, mend_;
  GroupAttribute numbers_;
};

std::string mend_of(bool needs_loss, bool needs_first) {
  return !needs_first ? "loss=..." : needs_loss ? "loss=... and loss0=..." : "loss0=...";
}

// A tensor of the first step: of the smallest number in a name. Null if no name has one.
const TensorInfo* first_of(const Schema& schema) {
  const TensorInfo* first = nullptr;
  uint64_t least = 0;
  for (const SchemaTensor& tensor : schema.tensors) {
    const std::optional<uint64_t> step = parse_trace_name(tensor.info.name).step;
    if (!step || (first != nullptr && *step >= least)) continue;
    first = &tensor.info;
    least = *step;
  }
  return first;
}

}  // namespace

bool lacks_losses(std::string_view text) {
  const std::string_view stage = last_stage(text);
  return stage.substr(0, stage.find(':')) == kScheme && !(gives(stage, kLoss) && gives(stage, kFirst));
}

std::string with_any_loss(const std::string& text) {
  if (!lacks_losses(text)) {
    throw Error(Exit::usage, "--loss-attribute is for a scheme adaquant without loss=... or loss0=..., not for '" +
                                 escaped(text) + "'");
  }
  std::string out = text;
  if (!gives(last_stage(text), kFirst)) out = with(out, kFirst, 1);
  if (!gives(last_stage(text), kLoss)) out = with(out, kLoss, 1);
  return out;
}

std::function<SchemeChoice(const TensorInfo&)> losses_of_trace(const std::string& text, const std::string& attribute,
                                                               const Source& source, const TensorInfo& first) {
  const bool needs_loss = !gives(last_stage(text), kLoss), needs_first = !gives(last_stage(text), kFirst);
  const auto losses = std::make_shared<const Losses>(source, attribute, mend_of(needs_loss, needs_first));
  const std::string begun = needs_first ? with(text, kFirst, losses->of(first, kFirst)) : text;
  return [begun, losses, needs_loss](const TensorInfo& tensor) {
    return parse_scheme(needs_loss ? with(begun, kLoss, losses->of(tensor, kLoss)) : begun);
  };
}

std::map<std::string, SchemeChoice, std::less<>> with_losses(const std::string& text, const std::string& attribute,
                                                             const Source& source, const Schema& schema,
                                                             const SchemeChoice& chosen) {
  std::map<std::string, SchemeChoice, std::less<>> out;
  const std::string_view stage = last_stage(text);
  const bool needs_loss = !gives(stage, kLoss), needs_first = !gives(stage, kFirst);
  const std::string stored = chosen.stored_text();
  const Losses losses(source, attribute, mend_of(needs_loss, needs_first));
  std::string begun = text;
  if (needs_first) {
    const TensorInfo* first = first_of(schema);
    if (first == nullptr) {
      throw Error(Exit::usage,
                  "no tensor is named after a step, so that no loss is the first: loss0=... in the scheme");
    }
    begun = with(text, kFirst, losses.of(*first, kFirst));
  }
  for (const SchemaTensor& tensor : schema.tensors) {
    if (schema.schemes[tensor.scheme].text != stored) continue;
    const std::string whole = needs_loss ? with(begun, kLoss, losses.of(tensor.info, kLoss)) : begun;
    out.emplace(tensor.info.name, parse_scheme(whole));
  }
  return out;
}

}  // namespace gradcodec
