// SPDX-License-Identifier: Apache-2.0
#include "format/salvage.h"

#include <algorithm>

#include "format/crew.h"

namespace gradcodec {

Salvager::Salvager(const DamagedFile& file, const DecompressOptions& options, Progress& progress)
    : file_(file), options_(options), schema_(file.schema()), schemes_(parse_schemes(schema_)) {
  check_holds_tensors(file.kind(), schema_);
  id_ = id_of(schema_, file.message(), file.kind());
  const uint64_t frames = total_frames(schema_);
  if (frames > file.file()->size()) {
    throw Error(Exit::bad_input, "has " + std::to_string(file.file()->size()) + " bytes of a file of " +
                                     std::to_string(frames) + " frames: too little is left of it");
  }
  for (const SchemaTensor& tensor : schema_.tensors) {
    const SchemeChoice& choice = schemes_[tensor.scheme].choice;
    if (!options.wanted(tensor.info) || !schemes_[tensor.scheme].problem.empty()) continue;
    if (needs_memory(file.message(), choice)) {
      throw Error(Exit::usage, "is decoded with what '" + std::string(choice.scheme->name()) +
                                   "' remembers of the messages before it, which --salvage has not")
          .in_tensor(tensor.info.name);
    }
    require_side(options, tensor.info, choice, options.side_of != nullptr);
  }
  for_each_chunk(progress, [this](const FramePlace& place, const std::string& lost) { look(place, lost); });
}

template <typename Take>
void Salvager::for_each_chunk(Progress& progress, Take take) {
  FrameWalk walk(schema_);
  FramePlace place;
  std::string params_why;
  for (uint64_t frame = 0; walk.next(place); ++frame) {
    if (!options_.wanted(info(place))) continue;
    in_tensor(info(place), [&] {
      if (place.params_only) {
        params_why = load_parameters(frame, place);
        return;
      }
      if (place.has_params()) params_why.clear();
      const std::string why = params_why.empty() ? load_chunk(frame, place) : "parameters: " + params_why;
      take(place, why);
    });
    progress.done += place.range.count * info(place).dtype.item_size();
  }
}

// Why what `use` uses is lost, or nothing.
template <typename Use>
std::string why_lost(Use use) {
  try {
    use();
    return {};
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input && error.code() != Exit::unsupported) throw;
    return error.text();
  }
}

std::string Salvager::load_parameters(uint64_t frame, const FramePlace& place) {
  tensor_ = {};
  return why_lost([&] {
    read(frame, place);
    restore(place);
  });
}

std::string Salvager::load_chunk(uint64_t frame, const FramePlace& place) {
  return why_lost([&] {
    read(frame, place);
    if (place.has_params()) restore(place);
    digest_ = decode_frame(info(place), tensor_, place, frame_, work_);
  });
}

void Salvager::read(uint64_t frame, const FramePlace& place) {
  const std::optional<uint64_t> offset = file_.frame_offset(frame);
  if (!offset) throw Error(Exit::bad_input, "not in the file as written");
  InputStream input(file_.file(), *offset);
  read_frame(
      input, file_.frame_seed(frame), options_.memory, [&] { return place.text(); }, frame_);
}

void Salvager::restore(const FramePlace& place) {
  const KnownScheme& scheme = schemes_[schema_.tensors[place.tensor].scheme];
  if (!scheme.problem.empty()) throw Error(Exit::unsupported, scheme.problem);
  TensorPlan plan = plan_of(schema_, schemes_, id_, place.tensor, schema_.chunk_len(schema_.tensors[place.tensor]));
  complete_plan(plan, options_);
  tensor_ = restore_tensor(plan, place, frame_, output_info(plan.info, options_.dtype).dtype);
}

void Salvager::look(const FramePlace& place, const std::string& why) {
  if (place.chunk == 0) {
    digests_.clear();
    overloaded_ = false;
  }
  if (why.empty()) {
    digests_.push_back(digest_);
    overloaded_ = overloaded_ || work_.overloaded;
  } else {
    lose(place, why);
  }
  if (!place.ends_tensor() || file_.digests().empty() || overloaded_ || digests_.size() < place.chunks) return;
  if (tensor_digest(digests_) == file_.digests()[place.tensor]) return;
  losses_.push_back({place.tensor,
                     0,
                     place.chunk,
                     place.chunks,
                     {0, info(place).size()},
                     "its values are not those that were encoded: their digests differ"});
}

void Salvager::lose(const FramePlace& place, const std::string& why) {
  if (!losses_.empty()) {
    Loss& before = losses_.back();
    if (before.tensor == place.tensor && before.last + 1 == place.chunk && before.why == why) {
      before.last = place.chunk;
      before.elements.count += place.range.count;
      return;
    }
  }
  losses_.push_back({place.tensor, place.chunk, place.chunk, place.chunks, place.range, why});
}

bool Salvager::is_intact(size_t tensor) const {
  const auto before = [](const Loss& loss, size_t number) { return loss.tensor < number; };
  const auto found = std::lower_bound(losses_.begin(), losses_.end(), tensor, before);
  return found == losses_.end() || found->tensor != tensor;
}

void Salvager::write(bool omits, Sink& sink, Progress& progress) {
  auto loss = losses_.begin();
  for_each_chunk(progress, [&](const FramePlace& place, const std::string& why) {
    while (loss != losses_.end() &&
           (loss->tensor < place.tensor || (loss->tensor == place.tensor && loss->last < place.chunk)))
      ++loss;
    const bool lost = loss != losses_.end() && loss->tensor == place.tensor && loss->first <= place.chunk;
    if (!lost && !why.empty()) throw Error(Exit::io, place.text() + " has changed since it was first read: " + why);
    if (omits && !is_intact(place.tensor)) return;
    const TensorInfo out = output_info(info(place), options_.dtype);
    if (place.chunk == 0) sink.begin(out);
    if (lost) {
      room_.assign(static_cast<size_t>(place.range.count * out.dtype.item_size()), std::byte{0});
      sink.write(room_);
    } else {
      sink.write(convert_frame(info(place), tensor_, place, frame_, work_, room_));
    }
    if (place.ends_tensor()) sink.end();
  });
}

}  // namespace gradcodec
