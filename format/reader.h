// ContainerReader: a .gradz file or a stream of them, in one pass, every check made before what it covers is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "format/files.h"
#include "format/frame_walk.h"
#include "format/layout.h"

namespace gradcodec {

// Where the bytes of a file went.
struct Accounts {
  uint64_t prologue = 0, schema = 0, message = 0, tree = 0, metadata = 0, skipped = 0;
  uint64_t frames = 0;    // heads and checks of frames
  uint64_t payloads = 0;  // what is in them
  uint64_t end = 0, tail = 0;
  uint64_t total() const {
    return prologue + schema + message + tree + metadata + skipped + frames + payloads + end + tail;
  }
};

// A frame as it was read.
struct FrameBytes {
  Form form = Form::coder;
  bool exceptions = false;  // the payload has a list of them
  ByteView payload;         // in buffer
  Bytes buffer;             // the whole frame; reused from frame to frame
  uint64_t offset = 0;      // of the frame in the input
};

// The next frame of `input`, its check (seeded so) made. What is claimed is never allocated before it has arrived.
// `what`: the frame's name for messages, asked for when there is one.
void read_frame(InputStream& input, uint64_t check_seed, uint64_t memory, const std::function<std::string()>& what,
                FrameBytes& frame);

// The frame that frame.buffer holds, head to check: makes its check (seeded so), sets form, exceptions and payload.
// Throws Error(bad_input), Error(unsupported).
void open_frame(uint64_t check_seed, const std::function<std::string()>& what, FrameBytes& frame);

// All that is left of `input`. Throws Error(limit) if that is more than `memory`.
void read_all(InputStream& input, uint64_t memory, Bytes& out);

// What frames are read from, in order.
class FrameReader {
 public:
  virtual ~FrameReader() = default;
  // The next frame, its check made. `place` names it in messages. Throws Error(bad_input), Error(unsupported),
  // Error(limit), Error(io).
  virtual void next(FrameBytes& frame, const FramePlace& place) = 0;

  // Passes over the next frame, if nobody wants what is in it: in a regular file without reading it, else as next does.
  virtual void skip(FrameBytes& frame, const FramePlace& place) { next(frame, place); }
};

// Reads begin, (message, frames in order), finish; again for the next message of a stream. Every call throws
// Error(bad_input) with the byte where the damage is, Error(unsupported), Error(limit) or Error(io).
class ContainerReader final : public FrameReader {
 public:
  // `memory`: most bytes that one block or frame may take, in the file or unpacked.
  ContainerReader(InputStream& input, uint64_t memory) : input_(input), memory_(memory) {}

  // Prologue to MESSAGE, or to SCHEMA of a schema file. False if the input ends where it could begin.
  bool begin();
  FileKind kind() const { return kind_; }
  const Schema& schema() const { return schema_; }
  const Message& message() const { return message_; }
  const Bytes& tree() const { return tree_; }          // unwrapped; empty if there is none
  const Bytes& metadata() const { return metadata_; }  // likewise
  const StateBlock& state() const { return state_; }   // of a state

  void next(FrameBytes& frame, const FramePlace& place) override;
  void skip(FrameBytes& frame, const FramePlace& place) override;

  // END and the tail, after all frames. Returns the digests, none if the message has none.
  std::vector<uint32_t> finish();

  // END's check, after finish: it covers all that stands before it, and names the file.
  uint64_t end_check() const { return end_check_; }

  // Throws Error(bad_input) if anything follows.
  void expect_end_of_input();

  const Accounts& accounts() const { return accounts_; }

  // The blocks of this message, as far as it has been read.
  struct BlockPlace {
    uint8_t tag = 0;
    uint64_t offset = 0, size = 0;  // in the input; tag to check
  };
  const std::vector<BlockPlace>& blocks() const { return blocks_; }

  // What seeds the next frame's check: more by one with each frame.
  uint64_t frame_seed() const { return base_ + k_; }

 private:
  struct Block {
    uint64_t offset = 0;  // in the input
    Bytes bytes;          // all of it, tag to check
    size_t head_size = 0;
    uint8_t tag = 0;
    ByteView body() const { return ByteView(bytes).subspan(head_size, bytes.size() - head_size - 8); }
  };
  Block read_block(const std::string& what);
  uint64_t check(const Block& block, uint64_t seed, const std::string& what);
  void take_header_block(const Block& block);
  std::string frame_text(const FramePlace& place) const;
  void count_frame(uint64_t size);

  InputStream& input_;
  uint64_t memory_;
  uint64_t base_ = 0, k_ = 0, end_check_ = 0;
  FileKind kind_ = FileKind::message;
  bool has_message_ = false;
  Schema schema_;
  Message message_;
  Bytes tree_, metadata_;
  StateBlock state_;
  std::vector<uint32_t> lengths_;
  std::vector<BlockPlace> blocks_;
  Accounts accounts_;
};

}  // namespace gradcodec
