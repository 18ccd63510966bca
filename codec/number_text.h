// Numbers as text, whatever the locale.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <string>

namespace gradcodec {

// The shortest text that reads back as the same number.
template <typename T>
std::string number_text(T value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return std::string(text.data(), end);
}

// With at most that many significant digits, up to 17.
inline std::string number_text(double value, int digits) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, digits).ptr;
  return std::string(text.data(), end);
}

}  // namespace gradcodec
