// Bare mode: messages whose schema both sides know beforehand. spec/container.md, "Bare messages".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "format/pipeline.h"

namespace gradcodec {

// A message of at most this many elements and bytes of elements has one check for the whole and no frames.
inline constexpr uint64_t kMaxShortBare = uint64_t{1} << 22;
inline constexpr uint64_t kMaxShortBareBytes = uint64_t{1} << 27;

// Frames to a bare message. Throws Error(io), Error(limit).
class BareWriter final : public FrameWriter {
 public:
  BareWriter(OutputFile& output, const Schema& schema, const MessageId& id);
  bool forms() const override { return !short_; }
  void seal(uint64_t number, Frame& frame) const override;
  void append(const Frame& frame) override;
  void finish(std::span<const uint32_t> digests) override;

 private:
  Bytes header(uint8_t flags) const;

  OutputFile& output_;
  const Schema& schema_;
  const MessageId id_;
  const bool short_;
  std::vector<Frame> held_;  // short: until it is known whether exceptions are listed
  uint64_t base_ = 0, k_ = 0;
};

// A bare message as frames, or whole. Throws Error: bad_input (damage), unsupported (another schema, a later version),
// limit, io.
class BareReader final : public FrameReader {
 public:
  // Reads the header.
  BareReader(InputStream& input, const Schema& schema, uint64_t memory);
  const MessageId& id() const { return id_; }
  void next(FrameBytes& frame, const FramePlace& place) override;  // of a long message

  // The whole message: decodes into `sink` (null: drops) and compares the digest.
  void decompress_into(const DecompressOptions& options, Sink* sink, Progress& progress);

 private:
  void read_header();
  Bytes take(uint64_t n, std::string_view what);
  std::vector<uint32_t> decode_short(ByteReader& in, const DecompressOptions& options, Sink* sink,
                                     Progress& progress) const;
  [[noreturn]] void damaged(const std::string& what) const;

  InputStream& input_;
  const Schema& schema_;
  const uint64_t memory_;
  const bool short_;
  MessageId id_;
  bool exceptions_ = false;
  Bytes header_;
  uint64_t base_ = 0, k_ = 0;
};

// A schema file.
void write_schema_file(const Schema& schema, OutputFile& output);
Schema read_schema_file(const std::string& path, uint64_t memory);

}  // namespace gradcodec
