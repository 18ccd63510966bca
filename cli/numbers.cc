// SPDX-License-Identifier: Apache-2.0
#include "cli/numbers.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "codec/error.h"

namespace gradcodec {

uint64_t parse_count(std::string_view text, std::string_view option, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    throw Error(Exit::usage, std::string(option) + " takes a whole number from " + std::to_string(min) + " to " +
                                 std::to_string(max) + ", not '" + escaped(text) + "'");
  }
  return value;
}

double parse_real(std::string_view text, std::string_view option, double min, double max) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > min && value < max)) {
    throw Error(Exit::usage, std::string(option) + " takes a number between " + short_number(min, 4) + " and " +
                                 short_number(max, 4) + ", not '" + escaped(text) + "'");
  }
  return value;
}

uint64_t parse_size(std::string_view text, std::string_view option) {
  constexpr std::string_view kUnits = "KMGTkmgt";
  std::string_view digits = text;
  unsigned shift = 0;
  const size_t end = text.find_first_not_of("0123456789");
  if (end != std::string_view::npos) {
    digits = text.substr(0, end);
    const std::string_view unit = text.substr(end);
    const size_t power = kUnits.find(unit[0]);
    const std::string_view rest = unit.substr(1);
    if (power == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "iB")) {
      throw Error(Exit::usage,
                  std::string(option) + " takes bytes, as 1000000, 64K, 512M or 4G, not '" + escaped(text) + "'");
    }
    shift = 10 * static_cast<unsigned>(power % 4 + 1);
  }
  return parse_count(digits, option, 0, std::numeric_limits<int64_t>::max() >> shift) << shift;
}

std::string with_commas(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string fixed(double value, int decimals) {
  std::array<char, 400> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, decimals).ptr;
  return std::string(text.data(), end);
}

std::string short_number(double value, int digits) {
  if (std::isnan(value)) return "-";
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, digits).ptr;
  return std::string(text.data(), end);
}

std::string size_text(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fixed(value, unit == 0 ? 0 : 1) + " " + std::string(kUnits[unit]);
}

}  // namespace gradcodec
