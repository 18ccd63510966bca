// SPDX-License-Identifier: Apache-2.0
#include "format/stored_message.h"

#include <algorithm>

#include "format/crew.h"
#include "format/dumps/tree.h"
#include "format/index_set.h"
#include "format/metadata.h"

namespace gradcodec {
namespace {

constexpr uint64_t kTensorMemory = 3072;  // of what is kept for a tensor: by stats, whose figures are the most

}  // namespace

// Notes where each frame lies, and restores each tensor, as the frames go by.
class StoredMessage::Recorder final : public FrameReader {
 public:
  Recorder(StoredMessage& message, ContainerReader& reader, const DecompressOptions& options)
      : message_(message), id_(id_of(message.schema_, message.message_)), reader_(reader), options_(options) {}

  const MessageId& id() const { return id_; }

  void next(FrameBytes& frame, const FramePlace& place) override {
    reader_.next(frame, place);
    message_.offsets_.push_back(frame.offset);
    if (!place.has_params()) return;
    const size_t tensor = place.tensor;
    TensorPlan plan = plan_of(message_.schema_, message_.schemes_, id_, tensor, chunk_len(tensor));
    complete_plan(plan, options_);
    message_.sides_.push_back(plan.side);
    message_.first_frames_.push_back(message_.offsets_.size() - 1);
    message_.restored_.push_back(restore_tensor(plan, place, frame, output_info(plan.info, options_.dtype).dtype));
  }

 private:
  StoredMessage& message_;
  const MessageId id_;
  uint64_t chunk_len(size_t tensor) const { return message_.schema_.chunk_len(message_.schema_.tensors[tensor]); }

  ContainerReader& reader_;
  const DecompressOptions& options_;
};

StoredMessage::StoredMessage(std::shared_ptr<const RandomFile> file, unsigned threads, uint64_t memory,
                             Progress& progress, const std::shared_ptr<const SideInfo>& side, bool any_side,
                             const std::shared_ptr<const IndexSet>& set)
    : file_(std::move(file)), memory_(memory) {
  DecompressOptions options;
  options.threads = threads;
  options.memory = memory;
  options.side_of = side_of(side);
  options.may_lack_side = side == nullptr;
  options.any_side = any_side;
  if (set) options.places_of = [set](const TensorInfo& info) { return set->mask_of(info); };
  in_file(file_->name(),
          [&] { read_whole(options, progress, FileKind::message, any_side ? nullptr : side.get(), set.get()); });
}

StoredMessage::StoredMessage(std::shared_ptr<const RandomFile> file, const DecompressOptions& options,
                             Progress& progress, FileKind kind)
    : file_(std::move(file)), memory_(options.memory) {
  in_file(file_->name(), [&] { read_whole(options, progress, kind, nullptr, nullptr); });
}

// `side`: which the message must have been made for, if it says so; null: nothing to compare. `set`: which it must
// answer; null: none, unless options.places_of knows it.
void StoredMessage::read_whole(const DecompressOptions& given, Progress& progress, FileKind kind, const SideInfo* side,
                               const IndexSet* set) {
  InputStream input(file_);
  ContainerReader reader(input, memory_);
  if (!reader.begin()) throw Error(Exit::bad_input, "is empty; a .gradz file was expected");
  const bool fits = reader.kind() == kind || (kind == FileKind::message && reader.kind() == FileKind::sum);
  if (!fits) {
    throw Error(Exit::usage,
                "is " + std::string(kind_text(reader.kind())) + ": " + std::string(kind_text(kind)) + " was expected");
  }
  check_holds_tensors(reader.kind(), reader.schema());
  kind_ = reader.kind();
  schema_ = reader.schema();
  message_ = reader.message();
  schemes_ = parse_schemes(schema_);
  for (const KnownScheme& known : schemes_) {
    if (!needs_memory(message_, known.choice)) continue;
    throw Error(Exit::usage, "is decoded with what '" + std::string(known.choice.scheme->name()) +
                                 "' remembers of the messages before it, which this command has not: decompress it");
  }
  check_claims(input, schema_);
  check_table();
  frame_seed_ = reader.frame_seed();

  if (set != nullptr || !given.places_of) check_answer(schema_, message_, set);
  DecompressOptions options = given;
  options.wanted = [](const TensorInfo&) { return true; };
  Unsettled unsettled;
  options.unsettled = &unsettled;
  if (side != nullptr) side->check(schema_, message_);
  progress.total += total_bytes(schema_);
  Recorder recorder(*this, reader, options);
  const std::vector<uint32_t> decoded =
      decompress(recorder, schema_, recorder.id(), options, nullptr, progress, &tallies_);
  const std::vector<uint32_t> stored = reader.finish();
  reader.expect_end_of_input();
  compare_digests(schema_, options, stored, decoded);
  if (!reader.metadata().empty()) metadata_json(reader.metadata());
  if (!reader.tree().empty()) parse_tree(reader.tree());
  accounts_ = reader.accounts();
  blocks_ = reader.blocks();
  tree_ = reader.tree();
  end_check_ = reader.end_check();
}

void StoredMessage::check_table() const {
  const uint64_t frames = total_frames(schema_);
  if (frames > memory_ / sizeof(uint64_t) || schema_.tensors.size() > memory_ / kTensorMemory) {
    throw Error(Exit::limit, "has " + std::to_string(frames) + " frames of " + std::to_string(schema_.tensors.size()) +
                                 " tensors, whose table needs more memory than --memory allows");
  }
}

uint64_t StoredMessage::chunks(size_t tensor) const {
  const SchemaTensor& entry = schema_.tensors[tensor];
  return chunk_count(entry.info.size(), schema_.chunk_len(entry));
}

FramePlace StoredMessage::place(size_t tensor, uint64_t chunk) const {
  const uint64_t size = info(tensor).size(), len = schema_.chunk_len(schema_.tensors[tensor]);
  const uint64_t first = chunk * len;
  return {tensor, false, chunk, chunks(tensor), {first, std::min(len, size - first)}};
}

void StoredMessage::read_frame_at(uint64_t number, const FramePlace& place, FrameBytes& frame) const {
  in_file(file_->name(), [&] {
    in_tensor(info(place.tensor), [&] {
      InputStream input(file_, offsets_[static_cast<size_t>(number)]);
      const auto text = [&] { return "frame " + std::to_string(number) + " (" + place.text() + ")"; };
      read_frame(input, frame_seed_ + number, memory_, text, frame);
    });
  });
}

Bytes StoredMessage::stored_params(size_t tensor) const {
  FramePlace first = place(tensor, 0);
  if (first.chunks > 1) first.params_only = true;
  FrameBytes frame;
  read_frame_at(first_frames_[tensor], first, frame);
  const ByteView params = frame.payload.first(restored_[tensor].params_size);
  return {params.begin(), params.end()};
}

void StoredMessage::load(size_t tensor, uint64_t chunk, Piece& piece) const {
  piece.place = place(tensor, chunk);
  const uint64_t skipped = piece.place.chunks > 1 ? 1 : 0;  // the frame of parameters
  read_frame_at(first_frames_[tensor] + skipped + chunk, piece.place, piece.frame);
  in_file(file_->name(), [&] { decode_frame(info(tensor), restored_[tensor], piece.place, piece.frame, piece.work); });
}

void StoredMessage::convert(Piece& piece) const {
  const size_t tensor = piece.place.tensor;
  in_file(file_->name(), [&] {
    piece.elements =
        convert_frame(info(tensor), restored_[tensor], piece.place, piece.frame, piece.work, piece.converted);
  });
}

ByteView StoredMessage::params_of(const Piece& piece) const {
  if (!piece.place.has_params()) return {};
  return piece.frame.payload.first(restored_[piece.place.tensor].params_size);
}

Bytes StoredMessage::bytes(uint64_t offset, uint64_t count) const {
  Bytes out(static_cast<size_t>(count));
  file_->read_at(offset, out);
  return out;
}

}  // namespace gradcodec
