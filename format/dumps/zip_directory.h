// The central directory of a zip file, checked before any member is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/files.h"

namespace gradcodec {

struct ZipMember {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;  // 0 stored, 8 deflated
  uint32_t crc = 0;     // of the content
  uint64_t compressed_size = 0, size = 0;
  uint64_t header_offset = 0, data_offset = 0;  // from file start

  bool is_directory() const { return !name.empty() && name.back() == '/'; }
  bool is_encrypted() const { return (flags & 0x2041) != 0; }  // traditional, strong, or names hidden
};

// Deflate cannot do better: a member that claims more is a trap.
inline constexpr uint64_t kMaxInflation = 1032;

// All members, in the order of the directory. Checked: the directory is where the end record says, complete and
// followed by nothing else; names differ; each member's local header is the same member's; members lie before the
// directory and do not overlap; stored ones are as long as their content, deflated ones at least 1/1032 of it. Content
// and checksums are not read; any method and encryption are let through. Takes memory for the members that are there,
// whatever the directory claims.
// Throws Error: bad_input if something does not hold; unsupported for an archive of several disks; io.
std::vector<ZipMember> read_zip_directory(const RandomFile& file);

}  // namespace gradcodec
