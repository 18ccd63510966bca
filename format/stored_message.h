// StoredMessage: a .gradz message that was checked whole and can then be read at any chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/files.h"
#include "format/frame_decoder.h"
#include "format/pipeline.h"
#include "format/reader.h"
#include "format/side_info.h"

namespace gradcodec {

struct IndexSet;

// One chunk, as it is stored and decoded. Buffers are reused from load to load.
struct Piece {
  FramePlace place;
  FrameBytes frame;
  Workspace work;     // code: streams, parameters of the chunk, exceptions. values: float32; or bytes, where the scheme
                      // carries those
  ByteView elements;  // of the tensor's own type, in `work` or `converted`; set by StoredMessage::convert
  Bytes converted;
};

class StoredMessage {
 public:
  // Opens `path` ("-", or a pipe, is first copied to a temporary file) and reads it once with every check there is:
  // those of blocks and frames, decoding, digests, tree, metadata, and that nothing follows. `memory`: bytes for the
  // chunks at work, and most that one part of the file, or the table of frames, may take. Throws Error naming the file:
  // bad_input, unsupported, limit, io, usage.
  // Tensors that need side information are decoded if `side` is there, and else only checked (lacks_side). `any_side`:
  // it may be other than the message was made for; then what it makes wrong is let pass. `set`: that the message
  // answers; without one it must answer none.
  StoredMessage(const std::string& path, unsigned threads, uint64_t memory, Progress& progress,
                const std::shared_ptr<const SideInfo>& side = nullptr, bool any_side = false)
      : StoredMessage(RandomFile::open(path), threads, memory, progress, side, any_side) {}
  StoredMessage(std::shared_ptr<const RandomFile> file, unsigned threads, uint64_t memory, Progress& progress,
                const std::shared_ptr<const SideInfo>& side = nullptr, bool any_side = false,
                const std::shared_ptr<const IndexSet>& set = nullptr);

  // The same of a file of another kind, or with what decoding needs beside it: of `options` places_of, seen, dtype (of
  // what `convert` gives), threads and memory.
  StoredMessage(std::shared_ptr<const RandomFile> file, const DecompressOptions& options, Progress& progress,
                FileKind kind = FileKind::message);

  const RandomFile& file() const { return *file_; }
  FileKind kind() const { return kind_; }  // a message or a sum, unless another was asked for
  const Schema& schema() const { return schema_; }
  const Message& message() const { return message_; }
  const Accounts& accounts() const { return accounts_; }
  const std::vector<TensorTally>& tallies() const { return tallies_; }  // one a tensor
  const std::vector<ContainerReader::BlockPlace>& blocks() const { return blocks_; }
  const Bytes& tree() const { return tree_; }        // unwrapped; empty if there is none
  uint64_t end_check() const { return end_check_; }  // ContainerReader::end_check
  uint64_t memory() const { return memory_; }

  size_t tensors() const { return schema_.tensors.size(); }
  const TensorInfo& info(size_t tensor) const { return schema_.tensors[tensor].info; }
  uint64_t chunks(size_t tensor) const;  // at least 1
  FramePlace place(size_t tensor, uint64_t chunk) const;

  // The scheme's decoder, with the parameters that are stored; null for `raw`. Lives as long as this.
  const Decoder* decoder(size_t tensor) const { return restored_[tensor].decoder->scheme(); }
  const SchemeChoice& choice(size_t tensor) const { return schemes_[schema_.tensors[tensor].scheme].choice; }
  // Its side information, or null; and whether that is missed, so that its values are not decoded: zeros.
  const Tensor* side(size_t tensor) const { return sides_[tensor].get(); }
  bool lacks_side(size_t tensor) const { return choice(tensor).scheme->takes_side() && side(tensor) == nullptr; }
  const Coder& coder(size_t tensor) const { return *schemes_[schema_.tensors[tensor].scheme].coder; }

  // The tensor's parameters as they stand in the file.
  Bytes stored_params(size_t tensor) const;

  // Reads a chunk again, makes its check again and decodes it. `piece` may have held any chunk before. Thread-safe, if
  // each thread has a piece of its own. Throws Error naming file, tensor, chunk and byte: bad_input if the file was
  // changed or cut since it was opened, io.
  void load(size_t tensor, uint64_t chunk, Piece& piece) const;

  // Sets the elements of a piece that was loaded: what decompress writes. Thread-safe likewise. Throws Error(limit) on
  // a value that the tensor's type cannot hold.
  void convert(Piece& piece) const;

  // The bytes of the file from `offset`. Throws what RandomFile::read_at throws.
  Bytes bytes(uint64_t offset, uint64_t count) const;

  // In a piece that was loaded, what of the frame's payload the tensor's parameters are: empty if they have a frame of
  // their own.
  ByteView params_of(const Piece& piece) const;

 private:
  class Recorder;

  void read_whole(const DecompressOptions& given, Progress& progress, FileKind kind, const SideInfo* side,
                  const IndexSet* set);
  void check_table() const;
  void read_frame_at(uint64_t number, const FramePlace& place, FrameBytes& frame) const;

  std::shared_ptr<const RandomFile> file_;
  const uint64_t memory_;
  FileKind kind_ = FileKind::message;
  Schema schema_;
  Message message_;
  Accounts accounts_;
  std::vector<ContainerReader::BlockPlace> blocks_;
  std::vector<TensorTally> tallies_;
  std::vector<KnownScheme> schemes_;
  Bytes tree_;
  uint64_t end_check_ = 0;
  uint64_t frame_seed_ = 0;               // of the first frame's check
  std::vector<uint64_t> offsets_;         // of frames
  std::vector<uint64_t> first_frames_;    // of tensors, among them
  std::vector<RestoredTensor> restored_;  // of tensors
  std::vector<std::shared_ptr<const Tensor>> sides_;
};

}  // namespace gradcodec
