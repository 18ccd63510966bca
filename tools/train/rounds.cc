// SPDX-License-Identifier: Apache-2.0
#include "tools/train/rounds.h"

#include <algorithm>
#include <utility>

#include "format/frame_decoder.h"
#include "format/frame_walk.h"
#include "format/heaviest.h"
#include "format/pipeline.h"
#include "format/writer.h"

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
  std::vector<std::pair<uint32_t, uint64_t>> keys;
  keys.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) keys.emplace_back(heavy_key(values[i]), i);
  const auto last = keys.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(count, keys.size()));
  std::nth_element(keys.begin(), last, keys.end());
  std::vector<uint64_t> places;
  for (auto key = keys.begin(); key != last; ++key) places.push_back(key->second);
  std::sort(places.begin(), places.end());
  return places;
}

SetMessage send_set(const TensorInfo& info, std::vector<uint64_t> places, uint64_t step) {
  IndexSet set;
  set.step = step;
  set.tensors.push_back({info, std::make_shared<const std::vector<uint64_t>>(std::move(places))});
  const auto file = RandomFile::in_memory("index set");
  OutputFile output(file);
  write_index_set(set, output, 1, kRoundMemory);
  output.commit();
  return {8 * static_cast<double>(file->size()), read_index_set(file, 1, kRoundMemory)};
}

Answer send_answer(const TensorInfo& info, const std::vector<float>& values, const IndexSet& set, MessageId id) {
  const std::vector<TensorInfo> tensors = {info};
  const TensorValues all = {values};
  const std::unique_ptr<Source> source = source_of(tensors, all);
  CompressOptions options;
  options.scheme = parse_scheme("at");
  options.id = id;
  options.memory = kRoundMemory;
  options.places_of = [&](const TensorInfo& of) { return set.mask_of(of); };
  const Schema schema = plan_schema(*source, options);
  const auto file = RandomFile::in_memory("answer");
  OutputFile output(file);
  ContainerWriter writer(output);
  Message message = plan_message(schema, id);
  message.side = set.check;
  Progress progress;
  writer.begin(schema, {}, {}, message);
  compress(*source, schema, std::vector<SchemeChoice>(schema.schemes.size(), options.scheme), options, writer,
           progress);
  output.commit();

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
