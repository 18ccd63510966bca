// SPDX-License-Identifier: Apache-2.0
#include "tools/train/rounds.h"

#include <utility>

#include "format/frame_decoder.h"
#include "format/frame_walk.h"
#include "format/heaviest.h"
#include "format/pipeline.h"

namespace gradcodec::train {

std::vector<TensorInfo> one_tensor(const Network& network) { return {{"parameters", {}, {network.parameters()}}}; }

void flatten(const TensorValues& values, std::vector<float>& out) {
  out.clear();
  for (const std::vector<float>& tensor : values) out.insert(out.end(), tensor.begin(), tensor.end());
}

TensorValues unflatten(std::span<const float> values, const std::vector<TensorInfo>& tensors) {
  TensorValues out;
  for (const TensorInfo& info : tensors) {
    const std::span<const float> part = values.first(static_cast<size_t>(info.size()));
    out.emplace_back(part.begin(), part.end());
    values = values.subspan(part.size());
  }
  return out;
}

// Decodes nothing: the server wants the table and no estimates of one worker's.
Table read_table(const std::shared_ptr<const RandomFile>& message) {
  InputStream input(message);
  ContainerReader reader(input, kRoundMemory);
  if (!reader.begin()) throw Error(Exit::bad_input, "is empty");
  const Schema& schema = reader.schema();
  check_claims(input, schema);
  const std::vector<KnownScheme> schemes = parse_schemes(schema);
  const MessageId id = id_of(schema, reader.message());
  FrameWalk walk(schema);
  FramePlace place;
  FrameBytes frame;
  std::optional<Table> table;
  while (walk.next(place)) {
    reader.next(frame, place);
    if (!place.has_params()) continue;
    const TensorPlan plan = plan_of(schema, schemes, id, place.tensor, walk.chunk_len(place.tensor));
    const RestoredTensor restored = restore_tensor(plan, place, frame, plan.info.dtype);
    const Table* const found = restored.decoder->scheme() == nullptr ? nullptr : table_of(*restored.decoder->scheme());
    if (found != nullptr) table = *found;
  }
  reader.finish();
  reader.expect_end_of_input();
  if (!table) throw Error(Exit::bad_input, "has no sketch");
  return *std::move(table);
}

std::vector<uint64_t> heaviest(std::span<const float> values, uint64_t count) {
  Foremost heavy(count, kRoundMemory);
  heavy.add(0, {0, values.size()}, values, [&](size_t i) { return uint64_t{heavy_key(values[i])}; });
  std::vector<uint64_t> places;
  for (const Standing& one : heavy.all()) places.push_back(one.place);
  return places;
}

SetMessage send_set(const TensorInfo& info, std::vector<uint64_t> places, uint64_t step) {
  IndexSet set;
  set.step = step;
  set.add(info, std::move(places));
  const auto file = RandomFile::in_memory("index set");
  OutputFile output(file);
  write_index_set(set, output, 1, kRoundMemory);
  output.commit();
  return {8 * static_cast<double>(file->size()), read_index_set(file, 1, kRoundMemory)};
}

Answer send_answer(const TensorInfo& info, const std::vector<float>& values, const IndexSet& set, MessageId id) {
  CompressOptions options;
  options.scheme = parse_scheme("at");
  options.id = id;
  options.memory = kRoundMemory;
  options.places_of = [&](const TensorInfo& of) { return set.mask_of(of); };
  Message message;
  message.side = set.check;
  const std::shared_ptr<const RandomFile> file = encode_values({info}, {values}, options, message);

  DecompressOptions decoding;
  decoding.memory = kRoundMemory;
  decoding.places_of = options.places_of;
  const TensorValues decoded = decode_values(file, decoding);
  Answer answer{8 * static_cast<double>(file->size()), {}};
  for (const uint64_t place : *set.tensors.front().places) {
    answer.values.push_back(decoded[0][static_cast<size_t>(place)]);
  }
  return answer;
}

}  // namespace gradcodec::train
