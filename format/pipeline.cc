// SPDX-License-Identifier: Apache-2.0
#include "format/pipeline.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "format/forms.h"
#include "format/ordered.h"

namespace gradcodec {
namespace {

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return glob_matches(p, name); });
}

bool takes_scheme(const TensorInfo& info, const CompressOptions& options) {
  if (!info.dtype.is_float() || info.size() < options.min_elements) return false;
  if (!options.include.empty() && !matches_any(options.include, info.name)) return false;
  return !matches_any(options.exclude, info.name);
}

// Whether anything in the message depends on its seed; nothing if a scheme is not known to this version.
std::optional<bool> draws(const Schema& schema) {
  bool any = false;
  for (const KnownScheme& scheme : parse_schemes(schema)) {
    if (scheme.choice.scheme == nullptr) return std::nullopt;
    any |= scheme.choice.scheme->draws();
  }
  return any;
}

// How many threads work, and on how many chunks at once.
struct Crew {
  unsigned threads;
  size_t slots;
};

// No more threads than frames, no more chunks than `memory` has room for. Throws Error(limit) if that is none.
Crew crew_for(const Schema& schema, unsigned threads, uint64_t memory, bool whole) {
  uint64_t cost = 1;
  for (const SchemaTensor& tensor : schema.tensors) {
    const uint64_t len = whole ? tensor.info.size() : std::min(tensor.info.size(), schema.chunk_len(tensor));
    // Elements as bytes and once more on their way, float32 values twice, symbols, a payload of two bytes at most.
    const uint64_t item = tensor.info.dtype.item_size();
    cost = std::max(cost, item == 0 ? 1 : len * (2 * item + 12));
  }
  if (cost > memory) {
    throw Error(Exit::limit,
                "a chunk takes about " + std::to_string(cost) + " bytes of memory to work on: raise --memory");
  }
  const uint64_t frames = std::max<uint64_t>(1, total_frames(schema));
  const auto used = static_cast<unsigned>(std::min<uint64_t>(threads, frames));
  return {used, static_cast<size_t>(std::clamp<uint64_t>(memory / cost, 1, 3 * uint64_t{used}))};
}

// Runs f; what it throws is said to be in this tensor.
template <typename F>
auto in_tensor(const TensorInfo& info, F f) {
  try {
    return f();
  } catch (Error& error) {
    error.in_tensor(info.name);
    throw;
  }
}

// One frame on its way out. A tensor of one chunk is prepared by whoever encodes it; one of several before its first
// frame.
struct Outgoing {
  FramePlace place;
  std::unique_ptr<TensorData> data;  // if still to be prepared
  std::shared_ptr<TensorEncoder> encoder;
  Workspace work;
  Frame frame;
  uint64_t digest = 0;
};

class Compressor {
 public:
  Compressor(Source& source, const Schema& schema, const std::vector<SchemeChoice>& schemes,
             const CompressOptions& options, FrameWriter& writer, Progress& progress)
      : source_(source),
        schema_(schema),
        schemes_(schemes),
        options_(options),
        writer_(writer),
        progress_(progress),
        walk_(schema, !writer.forms()) {}

  void run() {
    const Crew crew = crew_for(schema_, options_.threads, options_.memory, !writer_.forms());
    run_ordered<Outgoing>(
        crew.threads, crew.slots, [this](Outgoing& item) { return make(item); },
        [this](Outgoing& item) { encode(item); }, [this](Outgoing& item) { append(item); });
    writer_.finish(digests_);
  }

 private:
  TensorPlan plan(size_t tensor) const {
    const SchemaTensor& entry = schema_.tensors[tensor];
    return {entry.info,  schemes_[entry.scheme],        coder_of(schema_.schemes[entry.scheme].coder),
            options_.id, static_cast<uint32_t>(tensor), walk_.chunk_len(tensor)};
  }

  // The options' own object, which has an effort, if it is of that id.
  const Coder* coder_of(uint16_t id) const { return id == options_.coder->id() ? options_.coder : find_coder(id); }

  std::shared_ptr<TensorEncoder> prepare(size_t tensor, std::unique_ptr<TensorData> data) const {
    return in_tensor(schema_.tensors[tensor].info, [&] {
      return std::shared_ptr<TensorEncoder>(make_tensor_encoder(plan(tensor), std::move(data), options_.nonfinite));
    });
  }

  bool make(Outgoing& item) {
    if (!walk_.next(item.place)) return false;
    const size_t tensor = item.place.tensor;
    item.data.reset();
    item.encoder.reset();
    if (item.place.has_params()) {
      std::unique_ptr<TensorData> data = in_tensor(schema_.tensors[tensor].info, [&] { return source_.open(tensor); });
      if (item.place.params_only) {
        current_ = prepare(tensor, std::move(data));
      } else {
        item.data = std::move(data);
        return true;
      }
    }
    item.encoder = current_;
    return true;
  }

  void encode(Outgoing& item) const {
    if (!item.encoder) item.encoder = prepare(item.place.tensor, std::move(item.data));
    item.frame.params.clear();
    item.frame.exceptions.clear();
    item.frame.payload.clear();
    item.frame.form = Form::coder;
    if (item.place.has_params()) item.frame.params = item.encoder->stored();
    if (item.place.params_only) return;
    in_tensor(schema_.tensors[item.place.tensor].info,
              [&] { item.digest = item.encoder->encode(item.place.range, writer_.forms(), item.work, item.frame); });
  }

  void append(Outgoing& item) {
    writer_.append(item.frame);
    if (item.place.params_only) return;
    chunk_digests_.push_back(item.digest);
    progress_.done += item.place.range.count * schema_.tensors[item.place.tensor].info.dtype.item_size();
    if (item.place.ends_tensor()) {
      digests_.push_back(tensor_digest(chunk_digests_));
      chunk_digests_.clear();
    }
    item.encoder.reset();  // the last one closes the tensor
  }

  Source& source_;
  const Schema& schema_;
  const std::vector<SchemeChoice>& schemes_;
  const CompressOptions& options_;
  FrameWriter& writer_;
  Progress& progress_;
  FrameWalk walk_;
  std::shared_ptr<TensorEncoder> current_;
  std::vector<uint64_t> chunk_digests_;
  std::vector<uint32_t> digests_;
};

// One frame on its way in.
struct Incoming {
  FramePlace place;
  FrameBytes frame;
  size_t params_size = 0;                  // in front of the chunk
  std::shared_ptr<TensorDecoder> decoder;  // null: not wanted, or parameters only
  Workspace work;
  Bytes elements;
  uint64_t digest = 0;
};

class Decompressor {
 public:
  Decompressor(FrameReader& reader, const Schema& schema, const MessageId& id, const DecompressOptions& options,
               Sink* sink, Progress& progress, std::vector<TensorTally>* tallies)
      : reader_(reader),
        schema_(schema),
        id_(id),
        options_(options),
        sink_(sink),
        progress_(progress),
        tallies_(tallies),
        schemes_(parse_schemes(schema)),
        walk_(schema) {
    if (tallies_ != nullptr) tallies_->assign(schema.tensors.size(), {});
    for (const SchemaTensor& tensor : schema.tensors) {
      const KnownScheme& scheme = schemes_[tensor.scheme];
      if (options.wanted(tensor.info) && !scheme.problem.empty()) {
        throw Error(Exit::unsupported, scheme.problem).in_tensor(tensor.info.name);
      }
    }
  }

  std::vector<uint32_t> run() {
    const Crew crew = crew_for(schema_, options_.threads, options_.memory, false);
    run_ordered<Incoming>(
        crew.threads, crew.slots, [this](Incoming& item) { return make(item); },
        [this](Incoming& item) { decode(item); }, [this](Incoming& item) { write(item); });
    return std::move(digests_);
  }

 private:
  // What goes wrong in a frame is said with its tensor and its place.
  template <typename F>
  auto in_frame(const Incoming& item, F f) {
    return in_tensor(schema_.tensors[item.place.tensor].info, [&] {
      try {
        return f();
      } catch (const Error& error) {
        throw Error(error.code(), item.place.text() + ", at byte " + std::to_string(item.frame.offset) +
                                      " of the file: " + error.text());
      }
    });
  }

  bool make(Incoming& item) {
    if (!walk_.next(item.place)) return false;
    const SchemaTensor& entry = schema_.tensors[item.place.tensor];
    const bool wanted = options_.wanted(entry.info);
    in_tensor(entry.info, [&] {
      if (wanted || !options_.skip_unwanted) {
        reader_.next(item.frame, item.place.text());
      } else {
        reader_.skip(item.frame, item.place.text());
      }
    });
    if (tallies_ != nullptr) count(item);
    item.params_size = 0;
    item.decoder.reset();
    if (item.place.has_params()) current_.reset();
    if (wanted && item.place.has_params()) in_frame(item, [&] { restore(item); });
    if (wanted && !item.place.params_only) item.decoder = current_;
    return true;
  }

  void count(const Incoming& item) {
    TensorTally& tally = (*tallies_)[item.place.tensor];
    tally.frames += 1;
    tally.payload += item.frame.payload.size();
    tally.constant += item.frame.form == Form::constant ? 1 : 0;
    tally.stored += item.frame.form == Form::stored ? 1 : 0;
    tally.exceptions += item.frame.exceptions ? 1 : 0;
  }

  void restore(Incoming& item) {
    const SchemaTensor& entry = schema_.tensors[item.place.tensor];
    const KnownScheme& scheme = schemes_[entry.scheme];
    const TensorPlan plan{entry.info,
                          scheme.choice,
                          scheme.coder,
                          id_,
                          static_cast<uint32_t>(item.place.tensor),
                          walk_.chunk_len(item.place.tensor)};
    ByteReader stored(item.frame.payload, "the frame");
    // Where nobody takes the elements, the values are enough.
    const bool values_only = sink_ == nullptr && !scheme.choice.scheme->carries_bytes();
    const DType output = values_only ? DType{} : output_info(entry.info, options_.dtype).dtype;
    current_ = make_tensor_decoder(plan, stored, output);
    if (item.place.params_only) {
      stored.expect_end();
      if (item.frame.form != Form::coder || item.frame.exceptions) stored.fail("has a form though it holds parameters");
    }
    item.params_size = stored.position();
  }

  void decode(Incoming& item) {
    if (!item.decoder) return;
    in_frame(item, [&] {
      ByteReader payload(item.frame.payload.subspan(item.params_size), "the frame");
      std::vector<Exception> list;
      if (item.frame.exceptions) read_exceptions(payload, item.place.range.count, false, list);
      item.digest = item.decoder->decode(payload, item.frame.form, list, item.place.range, item.work, item.elements);
    });
  }

  void write(Incoming& item) {
    if (item.place.params_only) return;
    const TensorInfo& info = schema_.tensors[item.place.tensor].info;
    progress_.done += item.place.range.count * info.dtype.item_size();
    if (!item.decoder) {
      if (item.place.ends_tensor()) digests_.push_back(0);
      return;
    }
    item.decoder.reset();
    chunk_digests_.push_back(item.digest);
    if (sink_ != nullptr) {
      in_tensor(info, [&] {
        if (item.place.chunk == 0) sink_->begin(output_info(info, options_.dtype));
        sink_->write(item.elements);
        if (item.place.ends_tensor()) sink_->end();
      });
    }
    if (item.place.ends_tensor()) {
      digests_.push_back(tensor_digest(chunk_digests_));
      chunk_digests_.clear();
    }
  }

  FrameReader& reader_;
  const Schema& schema_;
  const MessageId id_;
  const DecompressOptions& options_;
  Sink* sink_;
  Progress& progress_;
  std::vector<TensorTally>* tallies_;
  const std::vector<KnownScheme> schemes_;
  FrameWalk walk_;
  std::shared_ptr<TensorDecoder> current_;
  std::vector<uint64_t> chunk_digests_;
  std::vector<uint32_t> digests_;
};

}  // namespace

Schema plan_schema(const Source& source, const CompressOptions& options) {
  Schema schema;
  schema.chunk_log2 = options.chunk_log2;
  schema.origin = source.kind();
  const std::string chosen = options.scheme.stored_text();
  for (const TensorInfo& info : source.tensors()) {
    const StoredScheme scheme{takes_scheme(info, options) ? chosen : "raw", options.coder->id()};
    const auto found = std::find(schema.schemes.begin(), schema.schemes.end(), scheme);
    schema.tensors.push_back({info, static_cast<uint32_t>(found - schema.schemes.begin())});
    if (found == schema.schemes.end()) schema.schemes.push_back(scheme);
  }
  return schema;
}

Message plan_message(const Schema& schema, const MessageId& id) {
  Message message;
  if (draws(schema).value()) message.seed = id.seed;
  message.worker = id.worker;
  message.step = id.step;
  message.digests = true;
  return message;
}

MessageId id_of(const Schema& schema, const Message& message) {
  if (draws(schema).value_or(message.seed.has_value()) != message.seed.has_value()) {
    throw Error(Exit::bad_input, message.seed ? "has a seed though no scheme of it draws random numbers"
                                              : "has no seed though a scheme of it draws random numbers");
  }
  return {message.seed.value_or(0), message.worker, message.step};
}

uint64_t total_bytes(const Schema& schema) {
  uint64_t total = 0;
  for (const SchemaTensor& tensor : schema.tensors) {
    if (__builtin_add_overflow(total, tensor.info.byte_size(), &total)) return ~uint64_t{0};
  }
  return total;
}

void compress(Source& source, const Schema& schema, const std::vector<SchemeChoice>& schemes,
              const CompressOptions& options, FrameWriter& writer, Progress& progress) {
  Compressor(source, schema, schemes, options, writer, progress).run();
}

std::vector<KnownScheme> parse_schemes(const Schema& schema) {
  std::vector<KnownScheme> out;
  for (const StoredScheme& scheme : schema.schemes) {
    KnownScheme known;
    known.coder = find_coder(scheme.coder);
    if (known.coder == nullptr) {
      known.problem = "coder " + std::to_string(scheme.coder) + " is not known to this version";
    }
    try {
      known.choice = parse_stored_scheme(scheme.text);
    } catch (const Error& error) {
      if (error.code() != Exit::unsupported) throw;
      known.problem = error.text();
    }
    out.push_back(std::move(known));
  }
  return out;
}

TensorInfo output_info(const TensorInfo& info, const std::optional<DType>& dtype) {
  TensorInfo out = info;
  if (dtype && info.dtype.is_float()) out.dtype = *dtype;
  return out;
}

void check_claims(const InputStream& input, const Schema& schema) {
  const uint64_t frames = total_frames(schema);
  if (frames > input.left() / kFrameOverhead) {
    throw Error(Exit::bad_input, "is damaged or cut: its header speaks of " + std::to_string(frames) +
                                     " frames, for which " + std::to_string(input.left()) + " bytes are too few");
  }
}

std::vector<uint32_t> decompress(FrameReader& reader, const Schema& schema, const MessageId& id,
                                 const DecompressOptions& options, Sink* sink, Progress& progress,
                                 std::vector<TensorTally>* tallies) {
  return Decompressor(reader, schema, id, options, sink, progress, tallies).run();
}

void compare_digests(const Schema& schema, const DecompressOptions& options, std::span<const uint32_t> stored,
                     std::span<const uint32_t> decoded) {
  for (size_t i = 0; i < stored.size(); ++i) {
    if (options.wanted(schema.tensors[i].info) && stored[i] != decoded[i]) {
      throw Error(Exit::bad_input, "the decoded values are not those that were encoded: their digests differ")
          .in_tensor(schema.tensors[i].info.name);
    }
  }
}

}  // namespace gradcodec
