// SPDX-License-Identifier: Apache-2.0
#include "format/trace_names.h"

#include <charconv>

namespace gradcodec {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The number of `part` if it is WORD, at most one _ or -, and digits.
std::optional<uint64_t> number_after(std::string_view word, std::string_view part) {
  if (part.size() <= word.size()) return std::nullopt;
  for (size_t i = 0; i < word.size(); ++i) {
    if (lower(part[i]) != word[i]) return std::nullopt;
  }
  std::string_view digits = part.substr(word.size());
  if (digits[0] == '_' || digits[0] == '-') digits.remove_prefix(1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  uint64_t number = 0;
  if (digits.size() > 18) return std::nullopt;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

TraceName parse_trace_name(std::string_view name) {
  TraceName out;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    at = end + 1;
    if (!out.step && (out.step = number_after("step", part))) continue;
    if (!out.worker && (out.worker = number_after("worker", part))) continue;
    if (!out.worker && (out.worker = number_after("rank", part))) continue;
    out.rest += (out.rest.empty() ? "" : "/") + std::string(part);
  }
  return out;
}

}  // namespace gradcodec
