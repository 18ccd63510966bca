// The way back: decompress.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "format/crew.h"
#include "format/frame_decoder.h"
#include "format/ordered.h"
#include "format/pipeline.h"

namespace gradcodec {
namespace {

// One frame on its way in.
struct Incoming {
  FramePlace place;
  FrameBytes frame;
  RestoredTensor tensor;  // none: not wanted, or parameters only
  Workspace work;
  ByteView elements;  // in `work` or `room`
  Bytes room;
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
        asks_(asks_for_set(schema)),
        walk_(schema) {
    if (tallies_ != nullptr) tallies_->assign(schema.tensors.size(), {});
    for (const SchemaTensor& tensor : schema.tensors) {
      const KnownScheme& scheme = schemes_[tensor.scheme];
      if (options.wanted(tensor.info) && !scheme.problem.empty()) {
        throw Error(Exit::unsupported, scheme.problem).in_tensor(tensor.info.name);
      }
      // Known before anything is written.
      if (scheme.problem.empty()) require_side(options, tensor.info, scheme.choice, options.side_of != nullptr);
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
  bool make(Incoming& item) {
    if (!walk_.next(item.place)) return false;
    const SchemaTensor& entry = schema_.tensors[item.place.tensor];
    const bool wanted = options_.wanted(entry.info);
    in_tensor(entry.info, [&] {
      if (wanted || !options_.skip_unwanted) {
        reader_.next(item.frame, item.place);
      } else {
        reader_.skip(item.frame, item.place);
      }
    });
    if (tallies_ != nullptr) count(item);
    item.tensor = {};
    if (item.place.has_params()) current_ = {};
    // Without the set that a tensor's scheme asks for nothing can be told of it.
    const bool known = schemes_[entry.scheme].problem.empty() && (!asks_ || options_.places_of);
    if ((wanted || (tallies_ != nullptr && known)) && item.place.has_params()) restore(item);
    if (wanted && !item.place.params_only) item.tensor = current_;
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

  void restore(const Incoming& item) {
    const size_t tensor = item.place.tensor;
    TensorPlan plan = plan_of(schema_, schemes_, id_, tensor, walk_.chunk_len(tensor));
    complete_plan(plan, options_);
    if (options_.unsettled != nullptr && plan.scheme.takes_side() && !plan.side && options_.wanted(plan.info)) {
      options_.unsettled->without_side.push_back(tensor);
    }
    current_ = restore_tensor(plan, item.place, item.frame, output_info(plan.info, options_.dtype).dtype);
    if (tallies_ != nullptr) (*tallies_)[tensor].params = current_.decoder->describe();
  }

  void decode(Incoming& item) {
    if (!item.tensor.decoder) return;
    const TensorInfo& info = schema_.tensors[item.place.tensor].info;
    item.digest = decode_frame(info, item.tensor, item.place, item.frame, item.work);
    if (options_.seen && item.tensor.decoder->scheme() != nullptr) {
      options_.seen(item.place, item.work.decoded(item.place.range.count));
    }
    if (sink_ == nullptr) return;
    item.elements = convert_frame(info, item.tensor, item.place, item.frame, item.work, item.room);
  }

  void write(Incoming& item) {
    if (item.place.params_only) return;
    const TensorInfo& info = schema_.tensors[item.place.tensor].info;
    progress_.done += item.place.range.count * info.dtype.item_size();
    if (!item.tensor.decoder) {
      if (item.place.ends_tensor()) digests_.push_back(0);
      return;
    }
    item.tensor = {};
    if (item.work.overloaded && options_.unsettled != nullptr) {
      options_.unsettled->overloads.push_back({item.place.tensor, item.place.chunk, item.place.chunks});
    }
    chunk_digests_.reserve(static_cast<size_t>(std::min(item.place.chunks, kMostFramesReserved)));
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
  const bool asks_;
  FrameWalk walk_;
  RestoredTensor current_;
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
