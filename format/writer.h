// ContainerWriter: a .gradz file, in one pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/files.h"
#include "format/layout.h"

namespace gradcodec {

// One frame: how to read it, and its payload in three parts.
struct Frame {
  Form form = Form::coder;
  Bytes params;      // the tensor's stored parameters, if they are in this frame
  Bytes exceptions;  // serialized list, or empty
  Bytes payload;     // the chunk's parameters and streams

  uint64_t size() const { return params.size() + exceptions.size() + payload.size(); }
};

// Head, payload and check of a frame. Throws Error(limit) if it would pass 2^28 bytes.
Bytes frame_bytes(const Frame& frame, uint64_t check_seed);

// What frames are written to, in order.
class FrameWriter {
 public:
  virtual ~FrameWriter() = default;
  virtual bool forms() const = 0;  // whether frames may have forms other than Form::coder
  virtual void append(const Frame& frame) = 0;
  virtual void finish(std::span<const uint32_t> digests) = 0;  // one a tensor
};

// begin, then every frame in order, then finish. Abandoned before that, it leaves the output unfinished, which
// OutputFile then removes. Every call may throw Error(io), or Error(limit) for a part over 2^28 bytes.
class ContainerWriter final : public FrameWriter {
 public:
  explicit ContainerWriter(OutputFile& output) : output_(output) {}

  // Prologue to MESSAGE. `tree` and `metadata` are absent if empty.
  void begin(const Schema& schema, ByteView tree, ByteView metadata, const Message& message);
  bool forms() const override { return true; }
  void append(const Frame& frame) override;
  void finish(std::span<const uint32_t> digests) override;

 private:
  void write_header_block(Tag tag, ByteView body);

  OutputFile& output_;
  uint64_t seed_ = 0;  // of the next check: before MESSAGE ends the last check, after it S + k
  uint64_t k_ = 0;     // blocks and frames so far
  uint64_t base_ = 0;  // S, the check of MESSAGE
  std::vector<uint32_t> lengths_;
};

}  // namespace gradcodec
