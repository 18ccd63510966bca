// What stands beside a message, of arbitrary bytes: states, index sets, side information, schema files, and messages
// that are added up.
// SPDX-License-Identifier: Apache-2.0
#include "format/aggregator.h"
#include "format/bare.h"
#include "format/index_set.h"
#include "format/state.h"
#include "fuzz/support.h"

using namespace gradcodec;

namespace {

bool is_small(const std::shared_ptr<const RandomFile>& file) {
  InputStream input(file);
  ContainerReader reader(input, fuzz::kMemory);
  return reader.begin() && fuzz::is_small(reader.schema());
}

void read_side(const std::shared_ptr<RandomFile>& file) {
  const std::shared_ptr<SideInfo> side = SideInfo::from_message(file, 1, fuzz::kMemory);
  InputStream input(file);
  ContainerReader reader(input, fuzz::kMemory);
  reader.begin();
  std::vector<float> room;
  for (const SchemaTensor& tensor : reader.schema().tensors) {
    const std::shared_ptr<const Tensor> values = side->of(tensor.info);
    room.resize(static_cast<size_t>(tensor.info.size()));
    values->read({0, tensor.info.size()}, room);
  }
}

void add_up(const std::shared_ptr<const RandomFile>& file, bool exact) {
  AggregateOptions options;
  options.exact = exact;
  options.mean = !exact;
  options.memory = fuzz::kMemory;
  Aggregator aggregator({file, file}, options);
  Progress progress;
  MemorySink sink;
  aggregator.run(sink, progress);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = fuzz::file_of(fuzz::bytes_of(data, size));
  bool small = false;
  fuzz::expect_error_or_nothing([&] { small = is_small(file); });
  if (!small) return 0;
  fuzz::expect_error_or_nothing([&] { read_state(file, fuzz::kMemory); });
  fuzz::expect_error_or_nothing([&] { read_index_set(file, 1, fuzz::kMemory); });
  fuzz::expect_error_or_nothing([&] { read_side(file); });
  for (const bool exact : {false, true}) fuzz::expect_error_or_nothing([&] { add_up(file, exact); });
  return 0;
}
