// The records of a .gradz file, as spec/container.md describes them. Field names are the specification's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/bytes.h"
#include "codec/tensor.h"
#include "format/dumps/source.h"

namespace gradcodec {

inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'G', 'R', 'A', 0x0D, 0x0A, 0x1A, 0x0A};
inline constexpr std::array<uint8_t, 4> kBareMagic = {0x89, 'G', 'R', 'b'};
inline constexpr std::array<uint8_t, 4> kTailMagic = {'G', 'Z', 'n', 'd'};
inline constexpr uint8_t kMajor = 1;
inline constexpr uint8_t kMinor = 0;
inline constexpr size_t kPrologueSize = 16;
inline constexpr size_t kTailSize = 8;
inline constexpr size_t kFrameOverhead = 12;

// A state, an index set and a sum are laid out as messages are.
enum class FileKind : uint8_t { message = 1, schema = 2, state = 3, indices = 4, sum = 5 };

std::string_view kind_text(FileKind kind);  // "a message"

// 0x01 to 0x7F must be understood; 0x80 to 0xFF may be skipped once checked.
enum class Tag : uint8_t { schema = 0x01, message = 0x02, tree = 0x03, state = 0x04, end = 0x7F, metadata = 0x81 };
inline bool may_skip(uint8_t tag) { return tag >= 0x80; }

inline constexpr uint64_t kMaxBody = (uint64_t{1} << 28) - 1;  // of a block, and of a frame's payload
inline constexpr uint64_t kMaxTree = uint64_t{64} << 20;       // unpacked
inline constexpr uint64_t kMaxMetadata = uint64_t{16} << 20;   // unpacked
inline constexpr unsigned kMinChunkLog2 = 12, kMaxChunkLog2 = 22, kDefaultChunkLog2 = 18;
inline constexpr size_t kMaxSchemeText = 1024;

// How a frame's payload is to be read.
enum class Form : uint8_t {
  coder = 0,     // by the tensor's coder
  constant = 1,  // every symbol of the chunk is the one given
  stored = 2,    // by the coder `pack`, whatever the tensor's
};

struct StoredScheme {
  std::string text;  // printable ASCII, at most 1,024 bytes
  uint16_t coder = 0;
  bool operator==(const StoredScheme&) const = default;
};

struct SchemaTensor {
  TensorInfo info;
  uint32_t scheme = 0;  // index into Schema::schemes
};

struct Schema {
  uint8_t chunk_log2 = kDefaultChunkLog2;
  DumpKind origin = DumpKind::npz;
  std::vector<StoredScheme> schemes;
  std::vector<SchemaTensor> tensors;

  // Elements a chunk of this tensor. 2^chunk_log2, or fewer if elements are larger than 32 bytes, so that a chunk's
  // bytes stay below 2^(chunk_log2 + 5) (or are one element).
  uint64_t chunk_len(const SchemaTensor& tensor) const;
};

struct Message {
  std::optional<uint64_t> seed, worker, step;  // no seed: no scheme of the file draws
  bool digests = false;                        // END has a digest for each tensor
  std::optional<uint64_t> previous = {};       // END's check of this worker's message before, for those that remember
  std::optional<uint64_t> side = {};           // END's check of the side information that the encoder saw
};

// What a state says of itself beside its MESSAGE: whose it is (1 an encoder's, 2 a decoder's), and of which memory.
struct StateBlock {
  uint8_t role = 0;
  std::string memory;
};

uint64_t chunk_count(uint64_t elements, uint64_t chunk_len);  // 1 for no elements

// Frames of a tensor: its chunks, preceded by a frame of its stored parameters if there are several.
inline uint64_t frame_count(uint64_t chunks) { return chunks == 1 ? 1 : chunks + 1; }

Bytes write_prologue(FileKind kind);
// Checks magic, check, version, kind and flags, in this order. Throws Error: bad_input or unsupported.
FileKind parse_prologue(ByteView prologue);

Bytes write_schema(const Schema& schema);
// Throws Error(bad_input) on anything write_schema does not write, Error(unsupported) on what a later version may mean.
// `memory`: most that the result may take.
Schema parse_schema(ByteView body, uint64_t memory);

Bytes write_message(const Message& message);
Message parse_message(ByteView body);

Bytes write_state_block(const StateBlock& block);
StateBlock parse_state_block(ByteView body);  // throws Error(bad_input)

// What MESSAGE must have in a file of this kind, and what it must not. Throws Error(bad_input).
void check_message_of(FileKind kind, const Message& message);

// A whole block: tag, length, body, check.
Bytes write_block(Tag tag, ByteView body, uint64_t seed);

// The body of a schema file, as a SCHEMA block in any file has it, and the check that names it.
uint64_t schema_digest(const Schema& schema);

}  // namespace gradcodec
