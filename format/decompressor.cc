// The way back: decompress.
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "format/crew.h"
#include "format/forms.h"
#include "format/ordered.h"
#include "format/pipeline.h"

namespace gradcodec {
namespace {

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
    const bool known = schemes_[entry.scheme].problem.empty();
    if ((wanted || (tallies_ != nullptr && known)) && item.place.has_params()) in_frame(item, [&] { restore(item); });
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
    if (tallies_ != nullptr) (*tallies_)[item.place.tensor].params = current_->describe();
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

std::vector<uint32_t> decompress(FrameReader& reader, const Schema& schema, const MessageId& id,
                                 const DecompressOptions& options, Sink* sink, Progress& progress,
                                 std::vector<TensorTally>* tallies) {
  return Decompressor(reader, schema, id, options, sink, progress, tallies).run();
}

}  // namespace gradcodec
