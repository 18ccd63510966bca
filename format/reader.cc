// SPDX-License-Identifier: Apache-2.0
#include "format/reader.h"

#include <algorithm>
#include <cstring>

#include "codec/checksum.h"
#include "format/cbor.h"
#include "format/wrapped.h"

namespace gradcodec {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;

uint64_t last_check(const Bytes& bytes) { return ByteReader(ByteView(bytes).last(8), "a check").get<uint64_t>(); }

[[noreturn]] void damaged(uint64_t offset, const std::string& what) {
  throw Error(Exit::bad_input, "is damaged at byte " + std::to_string(offset) + ": " + what);
}

[[noreturn]] void too_large(const std::string& what, uint64_t size) {
  throw Error(Exit::limit, what + " needs " + std::to_string(size) + " bytes of memory: raise --memory");
}

// Replaces what `out` holds behind `at` by the next n bytes. What is claimed is never allocated before it has arrived,
// and what is there already is not cleared first. Returns how many bytes there were.
uint64_t read_behind(InputStream& input, Bytes& out, size_t at, uint64_t n) {
  if (input.left() < n) return input.left();
  const uint64_t end = at + n;
  if (out.size() > end) out.resize(static_cast<size_t>(end));
  for (uint64_t from = at; from < end;) {
    const size_t piece = static_cast<size_t>(std::min(end - from, kPiece));
    out.resize(std::max(out.size(), static_cast<size_t>(from) + piece));
    const size_t got = input.read(std::span(out).subspan(static_cast<size_t>(from), piece));
    from += got;
    if (got < piece) return from - at;
  }
  return n;
}

[[noreturn]] void ends_within(const std::string& what, uint64_t offset, uint64_t have, uint64_t n) {
  damaged(offset, "the input ends within " + what + " (" + std::to_string(have) + " of " + std::to_string(n) +
                      " bytes are there)");
}

// Appends n bytes.
void read(InputStream& input, Bytes& out, uint64_t n, const std::string& what) {
  const uint64_t start = input.position();
  const uint64_t have = read_behind(input, out, out.size(), n);
  if (have < n) ends_within(what, start, have, n);
}

}  // namespace

void read_all(InputStream& input, uint64_t memory, Bytes& out) {
  for (;;) {
    const size_t at = out.size();
    out.resize(at + static_cast<size_t>(kPiece));
    const size_t got = input.read(std::span(out).subspan(at));
    out.resize(at + got);
    if (out.size() > memory) too_large("the message", out.size());
    if (got < kPiece) return;
  }
}

void read_frame(InputStream& input, uint64_t check_seed, uint64_t memory, const std::function<std::string()>& what,
                FrameBytes& frame) {
  frame.offset = input.position();
  Bytes& bytes = frame.buffer;
  uint32_t head = 0;
  const size_t head_read = input.read(std::as_writable_bytes(std::span(&head, 1)));
  if (head_read < sizeof(head)) ends_within(what(), frame.offset, head_read, sizeof(head));
  const uint64_t size = little(head) & kMaxBody, start = input.position();
  if (size > memory) too_large(what(), size);
  bytes.resize(std::max(bytes.size(), sizeof(head)));
  std::memcpy(bytes.data(), &head, sizeof(head));
  const uint64_t have = read_behind(input, bytes, sizeof(head), size + 8);
  if (have < size + 8) ends_within(what(), start, have, size + 8);
  open_frame(check_seed, what, frame);
}

void open_frame(uint64_t check_seed, const std::function<std::string()>& what, FrameBytes& frame) {
  const Bytes& bytes = frame.buffer;
  const auto head = load_little<uint32_t>(bytes.data());
  if (checksum(ByteView(bytes).first(bytes.size() - 8), check_seed) != last_check(bytes)) {
    damaged(frame.offset, what() + " does not match its check");
  }
  const uint32_t form = head >> 28 & 3;
  if (form > 2 || head >> 31 != 0) {
    throw Error(Exit::unsupported,
                what() + " has the form " + std::to_string(head >> 28) + ", not known to this version");
  }
  frame.form = static_cast<Form>(form);
  frame.exceptions = (head >> 30 & 1) != 0;
  frame.payload = ByteView(bytes).subspan(4, bytes.size() - kFrameOverhead);
}

// Tag, length, body and check, as they come; not checked.
ContainerReader::Block ContainerReader::read_block(const std::string& what) {
  Block block;
  block.offset = input_.position();
  Bytes& bytes = block.bytes;
  read(input_, bytes, 2, what);
  while ((std::to_integer<uint8_t>(bytes.back()) & 0x80) != 0) {
    if (bytes.size() > 4) damaged(block.offset, what + " has a length of 2^28 or more");
    read(input_, bytes, 1, what);
  }
  ByteReader head(bytes, what);
  block.tag = head.get<uint8_t>();
  const uint64_t size = head.get_varint();
  if (size > kMaxBody) damaged(block.offset, what + " claims " + std::to_string(size) + " bytes");
  if (size > memory_) too_large(what, size);
  block.head_size = bytes.size();
  read(input_, bytes, size + 8, what);
  return block;
}

// Returns the check. A block that passes is listed.
uint64_t ContainerReader::check(const Block& block, uint64_t seed, const std::string& what) {
  const uint64_t stored = last_check(block.bytes);
  if (checksum(ByteView(block.bytes).first(block.bytes.size() - 8), seed) != stored) {
    damaged(block.offset, what + " does not match its check");
  }
  blocks_.push_back({block.tag, block.offset, block.bytes.size()});
  return stored;
}

bool ContainerReader::begin() {
  base_ = k_ = 0;
  has_message_ = false;
  tree_.clear();
  metadata_.clear();
  state_ = {};
  lengths_.clear();
  blocks_.clear();
  accounts_ = {};
  const uint64_t offset = input_.position();
  Bytes prologue(kPrologueSize);
  const size_t got = input_.read(prologue);
  if (got == 0) return false;
  if (got < kPrologueSize) {
    const bool ours = got < kMagic.size() ||
                      std::equal(kMagic.begin(), kMagic.end(), reinterpret_cast<const uint8_t*>(prologue.data()));
    damaged(offset, ours ? "the input ends within the prologue" : "this is not a .gradz file");
  }
  if (offset > 0 && !std::equal(kMagic.begin(), kMagic.end(), reinterpret_cast<const uint8_t*>(prologue.data()))) {
    damaged(offset, "what follows the message before is not a .gradz file");
  }
  kind_ = parse_prologue(prologue);
  accounts_.prologue = kPrologueSize;

  // Each of these checks is seeded by the one before, so that MESSAGE's check, which seeds the frames', stands for all.
  uint64_t seed = 0;
  while (!has_message_) {
    const bool first = k_ == 0;
    const std::string what = first ? "the SCHEMA block" : "block " + std::to_string(k_) + " before the frames";
    const Block block = read_block(what);
    seed = check(block, seed, what);
    if (first != (block.tag == static_cast<uint8_t>(Tag::schema))) {
      damaged(block.offset, first ? "the first block is not SCHEMA" : "a second SCHEMA block");
    }
    ++k_;
    take_header_block(block);
    if (kind_ == FileKind::schema) return true;
  }
  base_ = seed;
  if (kind_ == FileKind::state && state_.role == 0) throw Error(Exit::bad_input, "is a state without a STATE block");
  check_message_of(kind_, message_);
  lengths_.reserve(static_cast<size_t>(std::min(total_frames(schema_), kMostFramesReserved)));
  if (!tree_.empty() && schema_.origin != DumpKind::hdf5) {
    throw Error(Exit::bad_input, "has a TREE block though it was not made from HDF5");
  }
  return true;
}

void ContainerReader::take_header_block(const Block& block) {
  switch (static_cast<Tag>(block.tag)) {
    case Tag::schema:
      accounts_.schema = block.bytes.size();
      schema_ = parse_schema(block.body(), memory_);
      return;
    case Tag::message:
      accounts_.message += block.bytes.size();
      message_ = parse_message(block.body());
      has_message_ = true;
      return;
    case Tag::tree:
      if (accounts_.tree > 0) throw Error(Exit::bad_input, "has two TREE blocks");
      accounts_.tree = block.bytes.size();
      tree_ = unwrap_body(block.body(), "the TREE block", std::min(kMaxTree, memory_));
      check_cbor(tree_, "the TREE block");
      return;
    case Tag::metadata:
      if (accounts_.metadata > 0) throw Error(Exit::bad_input, "has two METADATA blocks");
      accounts_.metadata = block.bytes.size();
      metadata_ = unwrap_body(block.body(), "the METADATA block", std::min(kMaxMetadata, memory_));
      check_cbor(metadata_, "the METADATA block");
      return;
    case Tag::state:
      if (kind_ != FileKind::state) throw Error(Exit::bad_input, "has a STATE block, but is not a state");
      if (state_.role != 0) throw Error(Exit::bad_input, "has two STATE blocks");
      accounts_.message += block.bytes.size();
      state_ = parse_state_block(block.body());
      return;
    case Tag::end:
      throw Error(Exit::bad_input, "ends before its MESSAGE block");
  }
  if (!may_skip(block.tag)) {
    throw Error(Exit::unsupported, "has a block of type " + std::to_string(block.tag) + ", not known to this version");
  }
  accounts_.skipped += block.bytes.size();
}

void ContainerReader::next(FrameBytes& frame, const FramePlace& place) {
  read_frame(
      input_, base_ + k_, memory_, [&] { return frame_text(place); }, frame);
  count_frame(frame.payload.size());
}

void ContainerReader::skip(FrameBytes& frame, const FramePlace& place) {
  if (!input_.seekable()) return next(frame, place);
  frame.offset = input_.position();
  Bytes head;
  read(input_, head, 4, frame_text(place));
  const uint64_t size = ByteReader(head, "a head").get<uint32_t>() & kMaxBody;
  if (!input_.skip(size + 8)) damaged(frame.offset, "the input ends within " + frame_text(place));
  count_frame(size);
}

std::string ContainerReader::frame_text(const FramePlace& place) const {
  return "frame " + std::to_string(lengths_.size()) + " (" + place.text() + ")";
}

void ContainerReader::count_frame(uint64_t size) {
  ++k_;
  lengths_.push_back(static_cast<uint32_t>(size));
  accounts_.frames += kFrameOverhead;
  accounts_.payloads += size;
}

std::vector<uint32_t> ContainerReader::finish() {
  // END has the seed that follows the frames', so that it can be checked from the end; blocks to skip have those after
  // it.
  const std::string what = "the END block";
  Block block = read_block(what);
  uint64_t skipped = 0;
  for (uint64_t i = 1; may_skip(block.tag); ++i) {
    check(block, base_ + k_ + i, "a block after the frames");
    skipped += block.bytes.size();
    block = read_block(what);
  }
  end_check_ = check(block, base_ + k_, what);
  if (block.tag != static_cast<uint8_t>(Tag::end)) damaged(block.offset, "the block after the frames is not END");
  accounts_.skipped += skipped;
  accounts_.end = block.bytes.size();
  ByteReader in(block.body(), what);
  std::vector<uint32_t> digests;
  if (message_.digests) {
    for (size_t i = 0; i < schema_.tensors.size(); ++i) digests.push_back(in.get<uint32_t>());
  }
  for (const uint32_t length : lengths_) {
    if (in.get_varint() != length) in.fail("says another length of a frame than the frame itself");
  }
  if (skipped > 0 && in.get_varint() != skipped) in.fail("says another size of the blocks before it than theirs");
  in.expect_end();
  Bytes tail;
  read(input_, tail, kTailSize, "the tail");
  ByteReader end(tail, "the tail");
  if (end.get<uint32_t>() != accounts_.end) damaged(input_.position() - kTailSize, "the tail says another size of END");
  const ByteView magic = end.get_bytes(4);
  if (!std::equal(magic.begin(), magic.end(), std::as_bytes(std::span(kTailMagic)).begin())) {
    damaged(input_.position() - 4, "the tail does not end with the format's magic bytes");
  }
  accounts_.tail = kTailSize;
  return digests;
}

void ContainerReader::expect_end_of_input() {
  const uint64_t offset = input_.position();
  Bytes next(kMagic.size());
  const size_t got = input_.read(next);
  if (got == 0) return;
  const bool another =
      got == kMagic.size() && std::equal(next.begin(), next.end(), std::as_bytes(std::span(kMagic)).begin());
  if (another) damaged(offset, "a second file begins here (--stream reads one message after another)");
  damaged(offset, "bytes follow after the end of the file");
}

}  // namespace gradcodec
