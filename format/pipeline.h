// compress and decompress: the whole path of the bytes, one screen each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "format/dumps/sink.h"
#include "format/dumps/source.h"
#include "format/frame_walk.h"
#include "format/reader.h"
#include "format/tensor_codec.h"
#include "format/writer.h"

namespace gradcodec {

// How far a job is, in bytes of tensors; read by whoever shows it.
struct Progress {
  std::atomic<uint64_t> total = 0, done = 0;
  std::atomic<uint64_t> beyond_type = 0;  // decoded values that the tensor's own 16-bit type cannot hold

  // What the schemes warn of, by tensor. Thread-safe.
  void warn(const std::string& tensor, std::string text) {
    if (text.empty()) return;
    const std::lock_guard lock(mutex);
    warnings.emplace(tensor, std::move(text));
  }
  std::mutex mutex;
  std::map<std::string, std::string> warnings;
};

struct CompressOptions {
  SchemeChoice scheme;
  CoderPair coders = coders_for_level(kDefaultLevel);
  MessageId id;
  // Tensors that the scheme is for: names that match one of `include` (all, if it is empty), none of `exclude`, of at
  // least min_elements elements and of a float type. The others go by raw.
  std::vector<std::string> include, exclude;
  uint64_t min_elements = 0;
  std::map<std::string, std::vector<float>, std::less<>> kept_levels = {};  // by tensor, instead of fitting them
  // By tensor, in place of `scheme` and stored as the same text: what they differ in is the encoder's alone.
  std::map<std::string, SchemeChoice, std::less<>> own_schemes = {};
  std::optional<float> shared_scale = {};                          // of the schemes that take one
  std::map<std::string, float, std::less<>> shared_scales = {};    // by tensor, in place of it
  std::function<const Memory*(const TensorInfo&)> memory_of = {};  // what the schemes remember, or null
  bool warns = false;  // whether to ask the schemes for warnings, for which they may read a tensor again
  // Side information of a tensor whose scheme takes some, if it is known already: decoding is tried with it, and
  // take_fit called for each such tensor, in order. Thread-safe.
  std::function<std::shared_ptr<const Tensor>(const TensorInfo&)> side_of = {};
  std::function<void(const TensorInfo&, const SideFit&)> take_fit = {};
  std::function<std::shared_ptr<const Tensor>(const TensorInfo&)> places_of = {};  // of the set that is answered
  std::function<void()> before_end = {};  // called when all is read, before the message is made whole
  Nonfinite nonfinite = Nonfinite::error;
  uint8_t chunk_log2 = kDefaultChunkLog2;
  unsigned threads = 1;
  uint64_t memory = uint64_t{4} << 30;  // bytes for chunks at work

  const Coder& coder_of(const Scheme& used) const { return gradcodec::coder_of(used, coders); }
};

// The schema of the message that compress will write.
Schema plan_schema(const Source& source, const CompressOptions& options);

// The schemes and coders that a schema names, parsed; null where a text or a coder is not known to this version.
struct KnownScheme {
  SchemeChoice choice;
  const Coder* coder = nullptr;
  std::string problem;  // why it cannot be used; empty if it can
};
std::vector<KnownScheme> parse_schemes(const Schema& schema);

// Whether the decoder of this message needs what it remembers of those before it.
bool needs_memory(const Message& message, const SchemeChoice& scheme);

// What MESSAGE will say: the seed only if a scheme draws, `previous` only if one remembers.
Message plan_message(const Schema& schema, const MessageId& id, uint64_t previous = 0);

// The scheme that remembers, of those that the schema names; null if there is none. There is at most one in a message.
const Scheme* memory_of(const std::vector<KnownScheme>& schemes);

// Encodes every tensor into frames, in order, and finishes with their digests. `schemes`: the parsed schemes of the
// schema, in its order. Deterministic: the frames do not depend on the number of threads.
void compress(Source& source, const Schema& schema, const std::vector<SchemeChoice>& schemes,
              const CompressOptions& options, FrameWriter& writer, Progress& progress);

// A tensor's plan on the way back. `schemes`: of parse_schemes.
TensorPlan plan_of(const Schema& schema, const std::vector<KnownScheme>& schemes, const MessageId& id, size_t tensor,
                   uint64_t chunk_len);

// What decoding left open for want of side information, or of near enough side information. Tensors by their number; in
// order.
struct Unsettled {
  struct Chunk {
    size_t tensor = 0;
    uint64_t chunk = 0, chunks = 0;
  };
  std::vector<Chunk> overloads;           // by tensor and chunk: let pass, as on_overload says
  std::vector<size_t> without_side = {};  // checked, and not decoded

  bool has(size_t tensor) const;
};

struct DecompressOptions {
  std::function<bool(const TensorInfo&)> wanted;  // which tensors to decode
  bool skip_unwanted = false;                     // pass over the frames of the others, if possible, without a check
  std::optional<DType> dtype;                     // of float tensors, instead of their own
  std::function<std::shared_ptr<const Tensor>(const TensorInfo&)> places_of = {};  // of the set that is answered
  // Side information of a tensor, or null. Where it is needed and there is none: Error(usage), or, if `may_lack_side`,
  // the checks alone that need none.
  std::function<std::shared_ptr<const Tensor>(const TensorInfo&)> side_of = {};
  bool may_lack_side = false;
  OnOverload on_overload = OnOverload::refuse;
  bool any_side =
      false;  // any side information will do: overloads are kept, and digests not compared where it is taken
  Unsettled* unsettled = nullptr;                                  // receives it
  std::function<const Memory*(const TensorInfo&)> memory_of = {};  // what it remembers, or null
  // Shown the values of each chunk of a lossy tensor that is decoded; by several threads at once.
  std::function<void(const FramePlace&, std::span<const float>)> seen = {};
  unsigned threads = 1;
  uint64_t memory = uint64_t{4} << 30;  // bytes for chunks at work
};

// Throws Error(usage) naming the tensor if it is to be decoded with side information, and none is `given`.
void require_side(const DecompressOptions& options, const TensorInfo& info, const SchemeChoice& scheme, bool given);

// What a decoder needs beside the message, put into its plan. Throws Error(usage) naming the tensor that has no side
// information and needs some.
void complete_plan(TensorPlan& plan, const DecompressOptions& options);

// What the tensor becomes.
TensorInfo output_info(const TensorInfo& info, const std::optional<DType>& dtype);

// What a tensor takes in the file.
struct TensorTally {
  uint64_t frames = 0, payload = 0, constant = 0, stored = 0, exceptions = 0;  // the last three: chunks
  std::string params;                                                          // for people
  uint64_t bytes() const { return payload + kFrameOverhead * frames; }
};

// Throws Error(bad_input) if the input is too short for the frames that the schema claims.
void check_claims(const InputStream& input, const Schema& schema);

// Reads every frame of a message; decodes those of wanted tensors into `sink` (null: decodes and drops). Returns the
// digest of each tensor, 0 for those not decoded; `tallies`, if not null, receives one a tensor. The caller finishes
// the reader, compares, and finishes the sink.
std::vector<uint32_t> decompress(FrameReader& reader, const Schema& schema, const MessageId& id,
                                 const DecompressOptions& options, Sink* sink, Progress& progress,
                                 std::vector<TensorTally>* tallies = nullptr);

// Throws Error(bad_input) naming the first tensor whose digest is not the one stored. Nothing is compared where none is
// stored, and of what options.unsettled has.
void compare_digests(const Schema& schema, const DecompressOptions& options, std::span<const uint32_t> stored,
                     std::span<const uint32_t> decoded);

// What a message's keys are made of. Throws Error(bad_input) unless the seed is there if, and only if, a scheme draws,
// and the check of the message before if, and only if, one remembers, and if there is a digest of side information and
// no scheme takes some. A state, which draws nothing, has no keys.
MessageId id_of(const Schema& schema, const Message& message, FileKind kind = FileKind::message);

// Whether one of the schemes in the text is `sum`.
bool has_sum(std::string_view text);

// That a file holds tensors, a message's or those of a sum, whose schemes are `sum`, and raw where there are no floats.
// Throws Error(usage) naming what it is else, Error(bad_input) for schemes of the other kind.
void check_holds_tensors(FileKind kind, const Schema& schema);

// Whether some tensor is coded at the places of an index set, which decoders need then.
bool asks_for_set(const Schema& schema);

// Bytes of the elements of all tensors; saturates.
uint64_t total_bytes(const Schema& schema);

}  // namespace gradcodec
