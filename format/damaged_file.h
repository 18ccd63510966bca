// DamagedFile: what of a damaged .gradz file is as it was written, and where it lies (spec/salvage.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/files.h"
#include "format/layout.h"

namespace gradcodec {

class DamagedFile {
 public:
  // Reads all of it. `memory`: most bytes that one part of the file may take. Throws Error: bad_input if SCHEMA or
  // MESSAGE is not found intact, without which nothing else can be told, or if an intact block was never right;
  // unsupported, limit, io.
  DamagedFile(std::shared_ptr<const RandomFile> file, uint64_t memory);

  const std::shared_ptr<const RandomFile>& file() const { return file_; }
  FileKind kind() const { return kind_; }  // where the prologue is damaged: as SCHEMA's texts say
  const Schema& schema() const { return schema_; }
  const Message& message() const { return message_; }
  const Bytes& tree() const { return tree_; }  // unwrapped; empty if there is none, or none intact

  // One a tensor, if MESSAGE says that there are some and END is intact; else empty.
  const std::vector<uint32_t>& digests() const { return digests_; }

  // Where frame k of SCHEMA's order begins, if it is intact, of which its check was the proof.
  std::optional<uint64_t> frame_offset(uint64_t k) const;
  uint64_t frame_seed(uint64_t k) const { return first_seed_ + k; }  // of its check

  // What is wrong beside frames, a line each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Block;
  std::optional<Block> block_at(uint64_t offset) const;
  uint64_t word_at(uint64_t offset) const;
  std::optional<Block> block_before_tail() const;
  void read_prologue();
  bool find_message_from_the_front();
  bool find_message_from_the_end();
  bool find_message_before(uint64_t frames_at, uint64_t headers);
  void take_header_block(const Block& block);
  void take_message(const Block& block, uint64_t headers);
  void find_end();
  bool take_end(const Block& block);
  bool search_end();
  std::optional<uint64_t> claimed_length(uint64_t offset) const;
  bool is_frame(uint64_t k, uint64_t offset, uint64_t length);
  void find_frames_by_lengths();
  void find_frames_by_heads();

  static constexpr uint64_t kLost = ~uint64_t{0};

  std::shared_ptr<const RandomFile> file_;
  const uint64_t memory_;
  FileKind kind_ = FileKind::message;
  Schema schema_;
  Message message_;
  Bytes tree_, room_;
  std::vector<std::string> notes_;
  bool has_kind_ = false;
  uint64_t frames_ = 0;            // by SCHEMA
  uint64_t frames_at_ = 0;         // where MESSAGE ends
  uint64_t first_seed_ = 0;        // of the first frame's check
  uint64_t frames_end_ = 0;        // by END; where the last frame ends
  std::vector<uint32_t> lengths_;  // by END; empty if it is not intact
  std::vector<uint32_t> digests_;
  std::vector<uint64_t> offsets_;  // kLost, or of the frame
};

}  // namespace gradcodec
