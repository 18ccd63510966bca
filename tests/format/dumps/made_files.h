// Files made byte by byte, right and wrong, for the tests of dumps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/bytes.h"
#include "codec/error.h"
#include "format/files.h"

namespace gradcodec {

inline std::shared_ptr<RandomFile> file_of(std::string_view bytes) {
  auto file = RandomFile::temporary();
  file->write_at(0, as_bytes(bytes));
  return file;
}

template <typename T>
std::string little_endian(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// An .npy file with this header text, whatever it says.
inline std::string npy_of(const std::string& text, const std::string& elements = "", char major = 1) {
  const std::string length = major == 1 ? little_endian(static_cast<uint16_t>(text.size()))
                                        : little_endian(static_cast<uint32_t>(text.size()));
  return "\x93NUMPY" + std::string{major, '\0'} + length + text + elements;
}

inline std::string header_text(const std::string& descr, const std::string& shape, bool fortran_order = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") + ", 'shape': " + shape +
         ", }\n";
}

inline uint32_t crc32_of(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

// A deflate stream of one stored block.
inline std::string deflated(const std::string& bytes) {
  const auto size = static_cast<uint16_t>(bytes.size());
  return "\1" + little_endian(size) + little_endian(static_cast<uint16_t>(~size)) + bytes;
}

// A member of a made zip file; the optional ones are lies.
struct MadeMember {
  std::string name, content;
  uint16_t method = 0, flags = 0;
  std::optional<uint32_t> crc, compressed_size, size, header_offset;
  std::string extra, local_extra;
  std::optional<std::string> local_name, data;
  std::optional<uint16_t> local_method;
};

struct MadeZip {
  std::vector<MadeMember> members;
  std::optional<uint16_t> count;
  std::optional<uint32_t> directory_offset, directory_size;
  std::string comment, before_directory, before_end;

  std::string bytes() const {
    std::string out, directory;
    for (const MadeMember& m : members) {
      const std::string data = m.data.value_or(m.method == 8 ? deflated(m.content) : m.content);
      const uint32_t offset = m.header_offset.value_or(static_cast<uint32_t>(out.size()));
      const std::string sizes = little_endian(m.crc.value_or(crc32_of(m.content))) +
                                little_endian(m.compressed_size.value_or(static_cast<uint32_t>(data.size()))) +
                                little_endian(m.size.value_or(static_cast<uint32_t>(m.content.size())));
      const std::string local_name = m.local_name.value_or(m.name);
      const std::string start = little_endian<uint16_t>(20) + little_endian(m.flags);
      const std::string time = little_endian<uint32_t>(0x00210000);
      out += "PK\3\4" + start + little_endian(m.local_method.value_or(m.method)) + time + sizes +
             little_endian(static_cast<uint16_t>(local_name.size())) +
             little_endian(static_cast<uint16_t>(m.local_extra.size())) + local_name + m.local_extra + data;
      directory += "PK\1\2" + little_endian<uint16_t>(20) + start + little_endian(m.method) + time + sizes +
                   little_endian(static_cast<uint16_t>(m.name.size())) +
                   little_endian(static_cast<uint16_t>(m.extra.size())) + std::string(10, '\0') +
                   little_endian(offset) + m.name + m.extra;
    }
    out += before_directory;
    const auto offset = directory_offset.value_or(static_cast<uint32_t>(out.size()));
    const std::string n = little_endian(count.value_or(static_cast<uint16_t>(members.size())));
    return out + directory + before_end + "PK\5\6" + std::string(4, '\0') + n + n +
           little_endian(directory_size.value_or(static_cast<uint32_t>(directory.size()))) + little_endian(offset) +
           little_endian(static_cast<uint16_t>(comment.size())) + comment;
  }
};

// What `call` throws: "EXIT: text". Empty if nothing.
template <typename Call>
std::string failure_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + ": " + error.what();
  }
}

}  // namespace gradcodec
