// SPDX-License-Identifier: Apache-2.0
// Sizes and signatures are those of APPNOTE.TXT 6.3, sections 4.3 and 4.5.3.
#include "format/dumps/zip_directory.h"

#include <algorithm>
#include <string_view>

#include "codec/bytes.h"
#include "codec/error.h"

namespace gradcodec {
namespace {

constexpr uint32_t kLocalSignature = 0x04034B50, kEntrySignature = 0x02014B50, kEndSignature = 0x06054B50,
                   kEnd64Signature = 0x06064B50, kLocatorSignature = 0x07064B50;
constexpr uint64_t kLocalSize = 30, kEntrySize = 46, kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20;
constexpr uint64_t kMaxComment = 65535;
constexpr uint16_t kFull16 = 0xFFFF;  // the real value is in the zip64 field
constexpr uint32_t kFull32 = 0xFFFFFFFF;

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::bad_input, "zip: " + text); }

[[noreturn]] void fail_member(const std::string& name, const std::string& text) {
  fail("member '" + escaped(name) + "' " + text);
}

uint32_t signature_at(ByteView bytes) { return ByteReader(bytes, "zip signature").get<uint32_t>(); }

// Reads a span of the file from front to back, in pieces, so that a false size costs nothing.
class Window {
 public:
  Window(const RandomFile& file, uint64_t first, uint64_t end) : file_(file), at_(first), end_(end) {}

  // A view of the next `n` bytes, valid until the next call.
  ByteView take(uint64_t n) {
    if (n > end_ - at_) fail("the directory ends in the middle of an entry");
    if (n > buffer_.size() - used_) {
      const uint64_t size = std::min(end_ - at_, std::max(n, kPiece));
      buffer_.resize(size);
      file_.read_at(at_, buffer_);
      used_ = 0;
    }
    const ByteView out = std::span(buffer_).subspan(used_, n);
    used_ += n;
    at_ += n;
    return out;
  }

  bool done() const { return at_ == end_; }

 private:
  static constexpr uint64_t kPiece = uint64_t{256} << 10;

  const RandomFile& file_;
  uint64_t at_, end_;  // of the next byte taken, of the last one's end
  Bytes buffer_;
  size_t used_ = 0;
};

struct Directory {
  uint64_t offset = 0, size = 0, count = 0;
  uint64_t end = 0;  // where the records that follow the directory begin
};

// A value of the 32-bit record against the zip64 record's: the same, or marked as too large.
void require_agreement(uint64_t narrow, uint64_t full_mark, uint64_t wide) {
  if (narrow != full_mark && narrow != wide) fail("its two end records disagree");
}

// The zip64 end record, if its locator stands before the end record at `end_offset`.
void apply_zip64_end(const RandomFile& file, uint64_t end_offset, Directory& directory) {
  if (end_offset < kLocatorSize + kEnd64Size) return;
  Bytes bytes(kLocatorSize);
  file.read_at(end_offset - kLocatorSize, bytes);
  if (signature_at(bytes) != kLocatorSignature) return;
  ByteReader locator(bytes, "zip64 locator");
  locator.get_bytes(8);  // signature, disk
  const auto record_offset = locator.get<uint64_t>();
  if (record_offset > end_offset - kLocatorSize - kEnd64Size) fail("its zip64 end record lies outside the file");
  Bytes record_bytes(kEnd64Size);
  file.read_at(record_offset, record_bytes);
  ByteReader record(record_bytes, "zip64 end record");
  if (record.get<uint32_t>() != kEnd64Signature) fail("its zip64 end record is not where the locator says");
  // The size leaves out the signature and itself. More may follow; it must reach the locator.
  if (record.get<uint64_t>() != end_offset - kLocatorSize - record_offset - 12) fail("its zip64 end record is damaged");
  record.get_bytes(4);  // versions
  if (record.get<uint64_t>() != 0) throw Error(Exit::unsupported, "zip: several disks are not supported");
  const auto here = record.get<uint64_t>(), count = record.get<uint64_t>();
  const auto size = record.get<uint64_t>(), offset = record.get<uint64_t>();
  if (here != count) fail("its zip64 end record gives two counts of members");
  require_agreement(directory.count, kFull16, count);
  require_agreement(directory.size, kFull32, size);
  require_agreement(directory.offset, kFull32, offset);
  directory = {offset, size, count, record_offset};
}

Directory find_directory(const RandomFile& file) {
  if (file.size() < kEndSize) fail("cut: no end record");
  const uint64_t tail_size = std::min(file.size(), kEndSize + kMaxComment);
  Bytes tail(tail_size);
  file.read_at(file.size() - tail_size, tail);
  for (uint64_t at = tail_size - kEndSize + 1; at-- > 0;) {
    const ByteView record = std::span(tail).subspan(at);
    if (signature_at(record) != kEndSignature) continue;
    ByteReader end(record, "zip end record");
    end.get_bytes(4);
    const auto disk = end.get<uint16_t>(), first_disk = end.get<uint16_t>();
    const auto here = end.get<uint16_t>(), count = end.get<uint16_t>();
    Directory directory;
    directory.count = count;
    directory.size = end.get<uint32_t>();
    directory.offset = end.get<uint32_t>();
    if (end.get<uint16_t>() != end.left()) continue;  // not an end record, or something follows it
    if (disk != first_disk || (disk != 0 && disk != kFull16) || here != count) {
      throw Error(Exit::unsupported, "zip: several disks are not supported");
    }
    directory.end = file.size() - tail_size + at;
    apply_zip64_end(file, directory.end, directory);
    if (directory.size > directory.end || directory.offset != directory.end - directory.size) {
      fail("the end record puts the directory at byte " + std::to_string(directory.offset) + ", " +
           std::to_string(directory.size) + " bytes long; it must end at byte " + std::to_string(directory.end) +
           " (the file is cut, or something was put before or into it)");
    }
    if (directory.count > directory.size / kEntrySize) fail("the end record counts more members than the directory");
    return directory;
  }
  fail("no end record: the file is cut, or something follows the archive");
}

// The zip64 field among an entry's extra fields holds, in this order, those values that are marked as too large.
void apply_zip64_field(ByteView extra, ZipMember& member) {
  uint64_t* const values[] = {&member.size, &member.compressed_size, &member.header_offset};
  if (std::none_of(std::begin(values), std::end(values), [](const uint64_t* value) { return *value == kFull32; }))
    return;
  ByteReader fields(extra, "zip extra field");
  while (fields.left() > 0) {
    const auto id = fields.get<uint16_t>(), size = fields.get<uint16_t>();
    ByteReader field(fields.get_bytes(size), "zip64 field");
    if (id != 1) continue;
    for (uint64_t* value : values) {
      if (*value == kFull32) *value = field.get<uint64_t>();
    }
    return;
  }
  fail_member(member.name, "is marked as large but has no zip64 field");
}

ZipMember read_entry(Window& window) {
  ByteReader entry(window.take(kEntrySize), "zip entry");
  if (entry.get<uint32_t>() != kEntrySignature) fail("the directory holds something that is no entry");
  ZipMember member;
  entry.get_bytes(4);  // versions
  member.flags = entry.get<uint16_t>();
  member.method = entry.get<uint16_t>();
  entry.get_bytes(4);  // time
  member.crc = entry.get<uint32_t>();
  member.compressed_size = entry.get<uint32_t>();
  member.size = entry.get<uint32_t>();
  const auto name_size = entry.get<uint16_t>(), extra_size = entry.get<uint16_t>(),
             comment_size = entry.get<uint16_t>();
  entry.get_bytes(8);  // disk, attributes
  member.header_offset = entry.get<uint32_t>();
  ByteReader variable(window.take(uint64_t{name_size} + extra_size + comment_size), "zip entry");
  member.name = variable.get_text(name_size);
  apply_zip64_field(variable.get_bytes(extra_size), member);
  return member;
}

// Finds the member's data, after its local header. Sizes and checksum there may be missing (written to a pipe): the
// directory is the truth.
void locate_data(const RandomFile& file, uint64_t directory_offset, ZipMember& member) {
  const uint64_t needed = kLocalSize + member.name.size();
  if (member.header_offset > directory_offset || needed > directory_offset - member.header_offset) {
    fail_member(member.name, "lies outside the file's members");
  }
  Bytes bytes(needed);
  file.read_at(member.header_offset, bytes);
  ByteReader local(bytes, "zip local header");
  if (local.get<uint32_t>() != kLocalSignature)
    fail_member(member.name, "has no local header where the directory says");
  local.get_bytes(2);
  const auto flags = local.get<uint16_t>(), method = local.get<uint16_t>();
  local.get_bytes(16);  // time, checksum, sizes
  const auto name_size = local.get<uint16_t>(), extra_size = local.get<uint16_t>();
  const bool same = method == member.method && ((flags ^ member.flags) & 1) == 0 && name_size == member.name.size() &&
                    local.get_text(name_size) == member.name;
  if (!same) fail_member(member.name, "has a local header that differs from the directory");
  member.data_offset = member.header_offset + needed + extra_size;
  if (member.data_offset > directory_offset || member.compressed_size > directory_offset - member.data_offset) {
    fail_member(member.name, "claims " + std::to_string(member.compressed_size) + " bytes, more than the file has");
  }
}

void check_sizes(const ZipMember& member) {
  if (member.method == 0 && !member.is_encrypted() && member.compressed_size != member.size) {
    fail_member(member.name, "is stored, but its two sizes differ");
  }
  const uint64_t least = member.size / kMaxInflation + (member.size % kMaxInflation != 0 ? 1 : 0);
  if (member.compressed_size < least) {
    fail_member(member.name, "claims to grow from " + std::to_string(member.compressed_size) + " to " +
                                 std::to_string(member.size) + " bytes, which deflate cannot do");
  }
}

template <typename Less>
std::vector<const ZipMember*> sorted(const std::vector<ZipMember>& members, const Less& less) {
  std::vector<const ZipMember*> out;
  for (const ZipMember& member : members) out.push_back(&member);
  std::sort(out.begin(), out.end(), less);
  return out;
}

void check_distinct(const std::vector<ZipMember>& members) {
  const auto by_name = sorted(members, [](const ZipMember* a, const ZipMember* b) { return a->name < b->name; });
  const auto by_offset =
      sorted(members, [](const ZipMember* a, const ZipMember* b) { return a->header_offset < b->header_offset; });
  for (size_t i = 1; i < members.size(); ++i) {
    if (by_name[i - 1]->name == by_name[i]->name) fail_member(by_name[i]->name, "is there twice");
    if (by_offset[i - 1]->data_offset + by_offset[i - 1]->compressed_size > by_offset[i]->header_offset) {
      fail_member(by_offset[i]->name, "overlaps member '" + escaped(by_offset[i - 1]->name) + "'");
    }
  }
}

}  // namespace

std::vector<ZipMember> read_zip_directory(const RandomFile& file) {
  const Directory directory = find_directory(file);
  std::vector<ZipMember> members;
  Window window(file, directory.offset, directory.offset + directory.size);
  while (!window.done()) {
    members.push_back(read_entry(window));
    locate_data(file, directory.offset, members.back());
    check_sizes(members.back());
  }
  if (members.size() != directory.count) {
    fail("the directory lists " + std::to_string(members.size()) + " members, its end record counts " +
         std::to_string(directory.count));
  }
  check_distinct(members);
  return members;
}

}  // namespace gradcodec
