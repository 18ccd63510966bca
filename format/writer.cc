// SPDX-License-Identifier: Apache-2.0
#include "format/writer.h"

#include <algorithm>

#include "codec/checksum.h"
#include "format/frame_walk.h"
#include "format/wrapped.h"

namespace gradcodec {

void seal_frame(Frame& frame, uint64_t check_seed) {
  const uint64_t size = frame.size();
  if (size > kMaxBody) throw Error(Exit::limit, "a frame would pass 2^28 bytes: use smaller chunks");
  const uint32_t exceptions = frame.exceptions.empty() ? 0 : uint32_t{1} << 30;
  Bytes& out = frame.sealed;
  out.clear();
  put(out, static_cast<uint32_t>(size) | static_cast<uint32_t>(frame.form) << 28 | exceptions);
  put_bytes(out, frame.params);
  put_bytes(out, frame.exceptions);
  put_bytes(out, frame.payload);
  put(out, checksum(out, check_seed));
}

void ContainerWriter::write_header_block(Tag tag, ByteView body) {
  const Bytes block = write_block(tag, body, seed_);
  seed_ = ByteReader(ByteView(block).last(8), "a block").get<uint64_t>();
  ++k_;
  output_.write(block);
}

void ContainerWriter::begin(const Schema& schema, ByteView tree, ByteView metadata, const Message& message,
                            FileKind kind, ByteView state) {
  output_.write(write_prologue(kind));
  write_header_block(Tag::schema, write_schema(schema));
  if (!tree.empty()) write_header_block(Tag::tree, wrap_body(tree));
  if (!metadata.empty()) write_header_block(Tag::metadata, wrap_body(metadata));
  if (!state.empty()) write_header_block(Tag::state, state);
  write_header_block(Tag::message, write_message(message));
  base_ = seed_;
  lengths_.reserve(static_cast<size_t>(std::min(total_frames(schema), kMostFramesReserved)));
}

void ContainerWriter::append(const Frame& frame) {
  output_.write(frame.sealed);
  lengths_.push_back(static_cast<uint32_t>(frame.size()));
}

void ContainerWriter::finish(std::span<const uint32_t> digests) {
  Bytes body;
  for (const uint32_t digest : digests) put(body, digest);
  for (const uint32_t length : lengths_) put_varint(body, length);
  const Bytes block = write_block(Tag::end, body, base_ + k_ + lengths_.size());
  output_.write(block);
  end_check_ = ByteReader(ByteView(block).last(8), "END").get<uint64_t>();
  Bytes tail;
  put(tail, static_cast<uint32_t>(block.size()));
  put_bytes(tail, std::as_bytes(std::span(kTailMagic)));
  output_.write(tail);
}

}  // namespace gradcodec
