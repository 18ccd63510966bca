// ContainerWriter: a .gradz file, in one pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/files.h"
#include "format/layout.h"

namespace gradcodec {

// One frame: how to read it, its payload in three parts, and all of it as it is written.
struct Frame {
  Form form = Form::coder;
  Bytes params;        // the tensor's stored parameters, if they are in this frame
  Bytes exceptions;    // serialized list, or empty
  Bytes payload;       // the chunk's parameters and streams
  bool sized = false;  // the payload's size, in Form::coder, follows from what stands before it
  Bytes sealed;        // head, payload and check, once made

  uint64_t size() const { return params.size() + exceptions.size() + payload.size(); }
};

// Makes frame.sealed. Throws Error(limit) if the payload would pass 2^28 bytes.
void seal_frame(Frame& frame, uint64_t check_seed);

// What frames are written to, in order.
class FrameWriter {
 public:
  virtual ~FrameWriter() = default;
  virtual bool forms() const = 0;  // whether frames may have forms other than Form::coder

  // What can be done for frame `number` of the message, from 0, before its turn comes. Thread-safe. Throws
  // Error(limit).
  virtual void seal(uint64_t number, Frame& frame) const = 0;

  virtual void append(const Frame& frame) = 0;                 // one that was sealed
  virtual void finish(std::span<const uint32_t> digests) = 0;  // one a tensor
};

// begin, then every frame in order, then finish. Abandoned before that, it leaves the output unfinished, which
// OutputFile then removes. Every call may throw Error(io), or Error(limit) for a part over 2^28 bytes.
class ContainerWriter final : public FrameWriter {
 public:
  explicit ContainerWriter(OutputFile& output) : output_(output) {}

  // Prologue to MESSAGE. `tree`, `metadata` and `state` are absent if empty.
  void begin(const Schema& schema, ByteView tree, ByteView metadata, const Message& message,
             FileKind kind = FileKind::message, ByteView state = {});
  bool forms() const override { return true; }
  void seal(uint64_t number, Frame& frame) const override { seal_frame(frame, base_ + k_ + number); }
  void append(const Frame& frame) override;
  void finish(std::span<const uint32_t> digests) override;

  // END's check, which names the message, once it is finished.
  uint64_t end_check() const { return end_check_; }

 private:
  void write_header_block(Tag tag, ByteView body);

  OutputFile& output_;
  uint64_t seed_ = 0;  // of the next check: before MESSAGE ends the last check, after it S + k
  uint64_t k_ = 0;     // blocks before the frames
  uint64_t base_ = 0;  // S, the check of MESSAGE
  uint64_t end_check_ = 0;
  std::vector<uint32_t> lengths_;
};

}  // namespace gradcodec
