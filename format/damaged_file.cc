// SPDX-License-Identifier: Apache-2.0
#include "format/damaged_file.h"

#include <algorithm>
#include <cstring>

#include "codec/checksum.h"
#include "format/cbor.h"
#include "format/dumps/tree.h"
#include "format/frame_walk.h"
#include "format/pipeline.h"
#include "format/wrapped.h"

namespace gradcodec {
namespace {

constexpr size_t kMostSeeds = 16;          // a chain of checks is followed over so many damaged blocks
constexpr uint64_t kMostHeaders = 64;      // header blocks that are tried where their number is not known
constexpr uint64_t kLargestMessage = 128;  // bytes of a MESSAGE block, tag to check, and more
constexpr uint64_t kWindow = uint64_t{1} << 20;
constexpr uint64_t kSearchEffort = 8;  // bytes that may be hashed in search of END, for each byte of the file
constexpr uint64_t kTrial = 1024;      // bytes that could be hashed while a place is tried at all

struct EndBody {
  std::vector<uint32_t> digests, lengths;
  uint64_t skipped = 0, frames_size = 0;
};

// Nothing if the body is not one of these numbers.
std::optional<EndBody> parse_end(ByteView body, uint64_t tensors, uint64_t frames) {
  if (body.size() / 4 < tensors || body.size() - 4 * tensors < frames) return std::nullopt;
  try {
    ByteReader in(body, "END");
    EndBody end;
    for (uint64_t i = 0; i < tensors; ++i) end.digests.push_back(in.get<uint32_t>());
    for (uint64_t i = 0; i < frames; ++i) {
      const uint64_t length = in.get_varint();
      if (length > kMaxBody) return std::nullopt;
      end.lengths.push_back(static_cast<uint32_t>(length));
      end.frames_size += length + kFrameOverhead;
    }
    if (in.left() > 0) end.skipped = in.get_varint();
    in.expect_end();
    return end;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

// A block as it claims to be.
struct DamagedFile::Block {
  uint64_t offset = 0;
  uint8_t tag = 0;
  size_t head_size = 0;
  Bytes bytes;  // tag to check

  uint64_t end() const { return offset + bytes.size(); }
  ByteView body() const { return ByteView(bytes).subspan(head_size, bytes.size() - head_size - 8); }
  uint64_t stored() const { return ByteReader(ByteView(bytes).last(8), "a check").get<uint64_t>(); }
  uint64_t computed(uint64_t seed) const { return checksum(ByteView(bytes).first(bytes.size() - 8), seed); }
  bool is(Tag wanted) const { return tag == static_cast<uint8_t>(wanted); }
};

DamagedFile::DamagedFile(std::shared_ptr<const RandomFile> file, uint64_t memory)
    : file_(std::move(file)), memory_(memory) {
  read_prologue();
  if (!find_message_from_the_front() && !find_message_from_the_end()) {
    throw Error(Exit::bad_input, "is damaged where its MESSAGE block was: nothing can be salvaged without it");
  }
  find_end();
  if (lengths_.empty()) {
    find_frames_by_heads();
  } else {
    find_frames_by_lengths();
  }
  room_ = {};
}

std::optional<uint64_t> DamagedFile::frame_offset(uint64_t k) const {
  if (k >= offsets_.size() || offsets_[static_cast<size_t>(k)] == kLost) return std::nullopt;
  return offsets_[static_cast<size_t>(k)];
}

// Nothing if there is no room in the file for what it claims.
std::optional<DamagedFile::Block> DamagedFile::block_at(uint64_t offset) const {
  constexpr uint64_t kLargestHead = 5;
  if (offset >= file_->size()) return std::nullopt;
  Bytes head(static_cast<size_t>(std::min(file_->size() - offset, kLargestHead)));
  file_->read_at(offset, head);
  size_t size = 1;
  uint64_t body = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (size == head.size()) return std::nullopt;
    const auto byte = std::to_integer<uint8_t>(head[size++]);
    body |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  const uint64_t whole = size + body + 8;
  if (whole > file_->size() - offset || whole > memory_) return std::nullopt;
  Block block{offset, std::to_integer<uint8_t>(head[0]), size, Bytes(static_cast<size_t>(whole))};
  file_->read_at(offset, block.bytes);
  return block;
}

uint64_t DamagedFile::word_at(uint64_t offset) const {
  uint64_t word = 0;
  file_->read_at(offset, std::as_writable_bytes(std::span(&word, 1)));
  return little(word);
}

void DamagedFile::read_prologue() {
  Bytes prologue(static_cast<size_t>(std::min<uint64_t>(file_->size(), kPrologueSize)));
  file_->read_at(0, prologue);
  try {
    kind_ = parse_prologue(prologue);
    has_kind_ = true;
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input) throw;
    notes_.emplace_back("the prologue is damaged");
  }
  if (kind_ == FileKind::schema) throw Error(Exit::usage, "is a schema file: there is nothing to salvage");
}

bool DamagedFile::find_message_from_the_front() {
  // A block's check is seeded by the check of the block before: as it is stored, or as it is computed, whichever of the
  // two is not damaged.
  std::vector<uint64_t> seeds = {0};
  uint64_t offset = kPrologueSize;
  for (uint64_t k = 0; seeds.size() <= kMostSeeds; ++k) {
    const std::optional<Block> block = block_at(offset);
    const bool intact = block && std::any_of(seeds.begin(), seeds.end(),
                                             [&](uint64_t seed) { return block->computed(seed) == block->stored(); });
    if (k == 0) {
      if (!intact || !block->is(Tag::schema)) {
        throw Error(Exit::bad_input,
                    "is damaged where its SCHEMA block is, from byte 16 on: nothing can be salvaged without it");
      }
      schema_ = parse_schema(block->body(), memory_);
      frames_ = total_frames(schema_);
    }
    if (!block || (intact && block->is(Tag::end))) return false;
    offset = block->end();
    if (intact) {
      if (block->is(Tag::message)) {
        take_message(*block, k + 1);
        return true;
      }
      if (k > 0) take_header_block(*block);
      seeds = {block->stored()};
      continue;
    }
    notes_.push_back("block " + std::to_string(k) + ", at byte " + std::to_string(block->offset) + ", is damaged");
    for (uint64_t& seed : seeds) seed = block->computed(seed);
    seeds.push_back(block->stored());
  }
  return false;
}

std::optional<DamagedFile::Block> DamagedFile::block_before_tail() const {
  const uint64_t size = file_->size();
  if (size < kPrologueSize + kTailSize) return std::nullopt;
  const uint64_t tail = word_at(size - kTailSize), claimed = tail & 0xFFFFFFFF;
  const auto magic = load_little<uint32_t>(std::as_bytes(std::span(kTailMagic)).data());
  if (tail >> 32 != magic || claimed > size - kTailSize) return std::nullopt;
  std::optional<Block> block = block_at(size - kTailSize - claimed);
  if (!block || block->end() != size - kTailSize || !block->is(Tag::end)) return std::nullopt;
  return block;
}

// Where the header cannot be followed: END's lengths lead from the end to where MESSAGE ends.
bool DamagedFile::find_message_from_the_end() {
  const std::optional<Block> block = block_before_tail();
  if (!block) return false;
  for (const uint64_t digests : {schema_.tensors.size(), size_t{0}}) {
    const std::optional<EndBody> end = parse_end(block->body(), digests, frames_);
    if (!end || end->skipped > block->offset || end->frames_size > block->offset - end->skipped) continue;
    const uint64_t frames_at = block->offset - end->skipped - end->frames_size;
    if (frames_at < 2 * kPrologueSize) continue;
    const uint64_t seed = word_at(frames_at - 8) + frames_;
    for (uint64_t headers = 2; headers <= kMostHeaders; ++headers) {
      if (block->computed(seed + headers) == block->stored()) return find_message_before(frames_at, headers);
    }
  }
  return false;
}

bool DamagedFile::find_message_before(uint64_t frames_at, uint64_t headers) {
  for (uint64_t back = 10; back <= std::min(frames_at - kPrologueSize, kLargestMessage); ++back) {
    const std::optional<Block> block = block_at(frames_at - back);
    if (!block || block->end() != frames_at || !block->is(Tag::message)) continue;
    if (block->computed(word_at(block->offset - 8)) != block->stored()) continue;
    take_message(*block, headers);
    return true;
  }
  return false;
}

// What is intact and yet wrong was never right: that is not salvaged.
void DamagedFile::take_header_block(const Block& block) {
  if (block.is(Tag::tree)) {
    tree_ = unwrap_body(block.body(), "the TREE block", std::min(kMaxTree, memory_));
    check_cbor(tree_, "the TREE block");
    parse_tree(tree_);
  } else if (block.is(Tag::state)) {
    if (!has_kind_) kind_ = FileKind::state;
  } else if (!may_skip(block.tag)) {
    throw Error(Exit::unsupported, "has a block of type " + std::to_string(block.tag) + ", not known to this version");
  }
}

void DamagedFile::take_message(const Block& block, uint64_t headers) {
  message_ = parse_message(block.body());
  frames_at_ = block.end();
  first_seed_ = block.stored() + headers;
  if (!has_kind_ && kind_ != FileKind::state) {
    for (const StoredScheme& scheme : schema_.schemes) {
      if (has_sum(scheme.text)) kind_ = FileKind::sum;
    }
  }
  check_message_of(kind_, message_);
}

void DamagedFile::find_end() {
  const std::optional<Block> block = block_before_tail();
  if (block && take_end(*block)) return;
  notes_.emplace_back("the end of the file is damaged or missing");
  if (!search_end()) notes_.emplace_back("END was not found: no digests, and frames are found by their own lengths");
}

bool DamagedFile::take_end(const Block& block) {
  if (!block.is(Tag::end) || block.offset < frames_at_) return false;
  if (block.computed(first_seed_ + frames_) != block.stored()) return false;
  std::optional<EndBody> end = parse_end(block.body(), message_.digests ? schema_.tensors.size() : 0, frames_);
  if (!end || end->skipped > block.offset) return false;
  lengths_ = std::move(end->lengths);
  digests_ = std::move(end->digests);
  frames_end_ = block.offset - end->skipped;
  return true;
}

// Wherever a block begins that could be END by its size, its check tells.
bool DamagedFile::search_end() {
  constexpr uint64_t kHead = 5;
  const uint64_t digests = message_.digests ? 4 * schema_.tensors.size() : 0;
  if (frames_ > file_->size()) return false;
  const uint64_t least = digests + frames_, most = digests + 4 * frames_ + 9;
  uint64_t effort = kSearchEffort * (file_->size() + kWindow);
  Bytes window;
  for (uint64_t at = frames_at_; at < file_->size(); at += kWindow) {
    window.resize(static_cast<size_t>(std::min(file_->size() - at, kWindow + kHead)));
    file_->read_at(at, window);
    const size_t starts = static_cast<size_t>(std::min<uint64_t>(window.size(), kWindow));
    for (size_t i = 0; i < starts; ++i) {
      if (window[i] != static_cast<std::byte>(Tag::end)) continue;
      const size_t left = std::min<size_t>(window.size() - i - 1, 4);
      uint64_t size = 0;
      for (size_t b = 0; b < left; ++b) {
        const auto byte = std::to_integer<uint8_t>(window[i + 1 + b]);
        size |= static_cast<uint64_t>(byte & 0x7F) << (7 * b);
        if (byte < 0x80) break;
      }
      if (size < least || size > most) continue;
      if (size + kTrial > effort) return false;
      effort -= size + kTrial;
      const std::optional<Block> block = block_at(at + i);
      if (block && take_end(*block)) return true;
    }
  }
  return false;
}

// What the head of a frame at `offset` says of its payload; nothing if the file has no room for it.
std::optional<uint64_t> DamagedFile::claimed_length(uint64_t offset) const {
  if (offset > file_->size() || file_->size() - offset < kFrameOverhead) return std::nullopt;
  uint32_t head = 0;
  file_->read_at(offset, std::as_writable_bytes(std::span(&head, 1)));
  const uint64_t length = little(head) & kMaxBody;
  if (length > file_->size() - offset - kFrameOverhead) return std::nullopt;
  return length;
}

bool DamagedFile::is_frame(uint64_t k, uint64_t offset, uint64_t length) {
  if (claimed_length(offset) != length) return false;
  if (length > memory_) {
    throw Error(Exit::limit,
                "frame " + std::to_string(k) + " needs " + std::to_string(length) + " bytes of memory: raise --memory");
  }
  room_.resize(static_cast<size_t>(length + kFrameOverhead));
  file_->read_at(offset, room_);
  return checksum(ByteView(room_).first(room_.size() - 8), frame_seed(k)) ==
         ByteReader(ByteView(room_).last(8), "a check").get<uint64_t>();
}

// Frames stand where the lengths lead from the front, and, if bytes are missing or too many, from the end.
void DamagedFile::find_frames_by_lengths() {
  uint64_t size = 0;
  for (const uint32_t length : lengths_) size += length + kFrameOverhead;
  const uint64_t shift = frames_end_ - size - frames_at_;  // modulo 2^64: 0 where nothing is missing
  uint64_t offset = frames_at_;
  for (size_t k = 0; k < lengths_.size(); ++k) {
    uint64_t found = kLost;
    if (is_frame(k, offset, lengths_[k])) {
      found = offset;
    } else if (shift != 0 && is_frame(k, offset + shift, lengths_[k])) {
      found = offset + shift;
    }
    offsets_.push_back(found);
    offset += lengths_[k] + kFrameOverhead;
  }
}

void DamagedFile::find_frames_by_heads() {
  uint64_t offset = frames_at_;
  for (uint64_t k = 0; k < frames_; ++k) {
    const std::optional<uint64_t> length = claimed_length(offset);
    if (!length) return;
    offsets_.push_back(is_frame(k, offset, *length) ? offset : kLost);
    offset += *length + kFrameOverhead;
  }
}

}  // namespace gradcodec
