// SPDX-License-Identifier: Apache-2.0
#include "codec/params.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "codec/error.h"
#include "codec/number_text.h"

namespace gradcodec {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Written as std::to_string would: no sign or zero without need.
std::optional<int64_t> whole(std::string_view text, const ParamSpec& spec) {
  int64_t value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || at != text.data() + text.size() || std::to_string(value) != text) return std::nullopt;
  if (static_cast<double>(value) < spec.min || static_cast<double>(value) > spec.max) return std::nullopt;
  return value;
}

std::optional<double> number(std::string_view text, double min, double max) {
  double value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || at != text.data() + text.size() || !(value >= min && value <= max)) return std::nullopt;
  return value;
}

std::optional<Value> value_of(const ParamSpec& spec, std::string_view text) {
  switch (spec.kind) {
    case ParamSpec::integer:
      if (const auto value = whole(text, spec)) return *value;
      break;
    case ParamSpec::real:
      if (const auto value = number(text, spec.min, spec.max)) return *value;
      break;
    case ParamSpec::choice: {
      const std::vector<std::string_view> words = split(spec.choices, '|');
      if (std::find(words.begin(), words.end(), text) != words.end()) return std::string(text);
      break;
    }
    case ParamSpec::list: {
      std::vector<int64_t> values;
      for (const std::string_view part : split(text, '-')) {
        const auto value = whole(part, spec);
        if (!value || (!values.empty() && *value <= values.back())) return std::nullopt;
        values.push_back(*value);
      }
      return values;
    }
    case ParamSpec::amount:
      if (!text.empty() && text.back() == '%') {
        const auto value = number(text.substr(0, text.size() - 1), 0, 100);
        if (value && *value > 0) return Amount{*value, true};
      } else if (const auto value = whole(text, spec)) {
        return Amount{static_cast<double>(*value), false};
      }
      break;
  }
  return std::nullopt;
}

const Value& value_at(const Params& params, std::string_view name) {
  const auto found = params.find(name);
  if (found == params.end()) throw Error(Exit::bug, "a scheme asks for '" + std::string(name) + "', which it lacks");
  return found->second;
}

}  // namespace

// 7% of 100 and 0.07% of 10,000 are 7, which no product in float64 is sure to be: a share is computed in integers, from
// the decimal number that was written. That is the shortest text of its float64, if it has at most 15 digits.
uint64_t Amount::of(uint64_t total) const {
  if (!percent) return std::min(static_cast<uint64_t>(value), total);
  if (total == 0) return 0;
  std::array<char, 32> text;  // d.ddde-dd
  const char* const end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific).ptr;
  uint64_t digits = 0;  // value = digits 10^(2 - places): a share of digits / 10^places; value is at most 10^2
  int exponent = 0, places = 2;
  const char* at = text.data();
  for (; *at != 'e'; ++at) {
    if (*at == '.') continue;
    digits = 10 * digits + static_cast<uint64_t>(*at - '0');
    places += at == text.data() ? 0 : 1;
  }
  std::from_chars(at + (at[1] == '+' ? 2 : 1), end, exponent);
  places -= exponent;
  if (places > 37) return 1;  // digits total < 10^17 2^64 < 10^37
  unsigned __int128 parts = 1;
  for (; places > 0; --places) parts *= 10;
  const unsigned __int128 product = static_cast<unsigned __int128>(digits) * total;
  return static_cast<uint64_t>((product + parts - 1) / parts);
}

Value parse_value(const ParamSpec& spec, std::string_view text) {
  if (std::optional<Value> value = value_of(spec, text)) return *std::move(value);
  throw Error(Exit::usage, "'" + std::string(spec.name) + "' takes " + range_text(spec) + ", not '" + escaped(text) +
                               "': for example " + std::string(spec.name) + "=" + example_text(spec));
}

std::string value_text(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  std::string text;
  for (const int64_t item : std::get<std::vector<int64_t>>(value)) {
    text += (text.empty() ? "" : "-") + std::to_string(item);
  }
  return text;
}

std::string range_text(const ParamSpec& spec) {
  const std::string range = "from " + number_text(spec.min) + " to " + number_text(spec.max);
  switch (spec.kind) {
    case ParamSpec::integer:
      return "a whole number " + range;
    case ParamSpec::real:
      return "a number " + range;
    case ParamSpec::list:
      return "rising whole numbers " + range + ", joined by '-'";
    case ParamSpec::amount:
      return "a whole number " + range + ", or a percentage";
    case ParamSpec::choice:
      break;
  }
  std::string words;
  for (const std::string_view word : split(spec.choices, '|')) words += (words.empty() ? "" : ", ") + std::string(word);
  return "one of " + words;
}

std::string example_text(const ParamSpec& spec) {
  if (!spec.example.empty()) return std::string(spec.example);
  if (!spec.fallback.empty()) return std::string(spec.fallback);
  return spec.kind == ParamSpec::choice ? std::string(split(spec.choices, '|')[0]) : number_text(spec.min);
}

int64_t integer_of(const Params& params, std::string_view name) { return std::get<int64_t>(value_at(params, name)); }
double real_of(const Params& params, std::string_view name) { return std::get<double>(value_at(params, name)); }
std::string_view choice_of(const Params& params, std::string_view name) {
  return std::get<std::string>(value_at(params, name));
}
const std::vector<int64_t>& list_of(const Params& params, std::string_view name) {
  return std::get<std::vector<int64_t>>(value_at(params, name));
}
Amount amount_of(const Params& params, std::string_view name) { return std::get<Amount>(value_at(params, name)); }

}  // namespace gradcodec
