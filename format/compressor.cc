// The way in: compress.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include "format/crew.h"
#include "format/ordered.h"
#include "format/pipeline.h"

namespace gradcodec {
namespace {

// One frame on its way out. A tensor of one chunk is prepared by whoever encodes it; one of several before its first
// frame.
struct Outgoing {
  FramePlace place;
  uint64_t number = 0;               // of the frame in the message
  std::unique_ptr<TensorData> data;  // if still to be prepared
  std::shared_ptr<TensorEncoder> encoder;
  Frame frame;
  uint64_t digest = 0, beyond_type = 0;
  SideFit fit;
};

// Of a thread, not of an item: what a chunk is made in is used again while it is in the cache.
Workspace& workspace() {
  thread_local Workspace of_this_thread;
  return of_this_thread;
}

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
        crew.threads, crew.slots, [this](Outgoing& item, const Loop& loop) { return make(item, loop); },
        [this](Outgoing& item) { encode(item); }, [this](Outgoing& item) { append(item); });
    if (options_.before_end) options_.before_end();
    writer_.finish(digests_);
  }

 private:
  TensorPlan plan(size_t tensor) const {
    const SchemaTensor& entry = schema_.tensors[tensor];
    const auto own = options_.own_schemes.find(entry.info.name);
    const SchemeChoice& scheme = own == options_.own_schemes.end() ? schemes_[entry.scheme] : own->second;
    const auto kept = options_.kept_levels.find(entry.info.name);
    const auto shared = options_.shared_scales.find(entry.info.name);
    TensorPlan plan = {entry.info,
                       scheme,
                       coder_of(scheme, schema_.schemes[entry.scheme].coder),
                       options_.id,
                       static_cast<uint32_t>(tensor),
                       walk_.chunk_len(tensor),
                       kept == options_.kept_levels.end() ? std::span<const float>() : kept->second,
                       shared == options_.shared_scales.end() ? options_.shared_scale : shared->second,
                       options_.side_of && scheme.takes_side() ? options_.side_of(entry.info) : nullptr,
                       options_.memory_of ? options_.memory_of(entry.info) : nullptr};
    plan.measures_side = options_.take_fit != nullptr;
    if (options_.places_of) plan.side = options_.places_of(entry.info);
    return plan;
  }

  // The options' own object, which has an effort, if it is of that id.
  const Coder* coder_of(const SchemeChoice& scheme, uint16_t id) const {
    const Coder& own = options_.coder_of(*scheme.scheme);
    return id == own.id() ? &own : find_coder(id);
  }

  std::shared_ptr<TensorEncoder> prepare(size_t tensor, std::unique_ptr<TensorData> data, const Loop& loop) const {
    const TensorInfo& info = schema_.tensors[tensor].info;
    return in_tensor(info, [&] {
      std::shared_ptr<TensorEncoder> encoder =
          make_tensor_encoder(plan(tensor), std::move(data), options_.nonfinite, loop);
      if (options_.warns && encoder->scheme() != nullptr) progress_.warn(info.name, encoder->scheme()->warning());
      return encoder;
    });
  }

  bool make(Outgoing& item, const Loop& loop) {
    if (!walk_.next(item.place)) return false;
    item.number = frames_++;
    const size_t tensor = item.place.tensor;
    item.data.reset();
    item.encoder.reset();
    if (item.place.has_params()) {
      std::unique_ptr<TensorData> data = in_tensor(schema_.tensors[tensor].info, [&] { return source_.open(tensor); });
      if (item.place.params_only) {
        current_ = prepare(tensor, std::move(data), loop);
      } else {
        item.data = std::move(data);
        return true;
      }
    }
    item.encoder = current_;
    return true;
  }

  void encode(Outgoing& item) const {
    if (!item.encoder) item.encoder = prepare(item.place.tensor, std::move(item.data), {});
    item.frame.params.clear();
    item.frame.exceptions.clear();
    item.frame.payload.clear();
    item.frame.form = Form::coder;
    if (item.place.has_params()) item.frame.params = item.encoder->stored();
    in_tensor(schema_.tensors[item.place.tensor].info, [&] {
      if (!item.place.params_only) {
        Workspace& work = workspace();
        item.digest = item.encoder->encode(item.place.range, writer_.forms(), work, item.frame);
        item.beyond_type = work.beyond_type;
        if (options_.take_fit) item.fit = std::move(work.fit);
      }
      writer_.seal(item.number, item.frame);
    });
  }

  void append(Outgoing& item) {
    writer_.append(item.frame);
    if (item.place.params_only) return;
    progress_.beyond_type += item.beyond_type;
    chunk_digests_.reserve(static_cast<size_t>(std::min(item.place.chunks, kMostFramesReserved)));
    chunk_digests_.push_back(item.digest);
    progress_.done += item.place.range.count * schema_.tensors[item.place.tensor].info.dtype.item_size();
    if (options_.take_fit) fit_.merge(item.fit);
    if (item.place.ends_tensor()) {
      digests_.push_back(tensor_digest(chunk_digests_));
      chunk_digests_.clear();
      if (options_.take_fit && item.encoder->scheme() != nullptr) {
        options_.take_fit(schema_.tensors[item.place.tensor].info, std::exchange(fit_, {}));
      }
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
  uint64_t frames_ = 0;
  std::shared_ptr<TensorEncoder> current_;
  std::vector<uint64_t> chunk_digests_;
  SideFit fit_;  // of the tensor
  std::vector<uint32_t> digests_;
};

}  // namespace

void compress(Source& source, const Schema& schema, const std::vector<SchemeChoice>& schemes,
              const CompressOptions& options, FrameWriter& writer, Progress& progress) {
  Compressor(source, schema, schemes, options, writer, progress).run();
}

}  // namespace gradcodec
