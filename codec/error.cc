// SPDX-License-Identifier: Apache-2.0
#include "codec/error.h"

#include "codec/utf8.h"

namespace gradcodec {

namespace {

// Characters that change the direction of text (U+202A to U+202E, U+2066 to U+2069) make it look like another.
bool is_direction(std::string_view character) {
  if (character.size() != 3 || character[0] != '\xE2') return false;
  const auto second = static_cast<unsigned char>(character[1]), third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && third >= 0xAA && third <= 0xAE) || (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

}  // namespace

std::string escaped(std::string_view name) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr size_t kShown = 200;
  std::string out;
  const bool cut = name.size() > kShown;
  size_t i = 0;
  while (i < name.size() && i < kShown) {
    const size_t len = utf8_length(name.substr(i));
    const auto byte = static_cast<unsigned char>(name[i]);
    // C1 controls (U+0080 to U+009F) steer some terminals too.
    const bool c1 = len == 2 && byte == 0xC2 && static_cast<unsigned char>(name[i + 1]) < 0xA0;
    if (len == 0 || c1 || is_direction(name.substr(i, len)) || byte < 0x20 || byte == 0x7F || byte == '\\') {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
      i += 1;
    } else {
      out += name.substr(i, len);
      i += len;
    }
  }
  if (cut) out += "...";
  return out;
}

Error& Error::in_file(std::string_view file) {
  if (file_.empty()) file_ = escaped(file);
  compose();
  return *this;
}

Error& Error::in_tensor(std::string_view tensor) {
  if (tensor_.empty()) tensor_ = escaped(tensor);
  compose();
  return *this;
}

void Error::compose() {
  whole_.clear();
  if (!file_.empty()) whole_ += file_ + ": ";
  if (!tensor_.empty()) whole_ += "tensor '" + tensor_ + "': ";
  whole_ += text_;
}

}  // namespace gradcodec
