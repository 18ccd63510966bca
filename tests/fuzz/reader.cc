// A .gradz file of arbitrary bytes: decompress, --salvage, and what info and verify look at.
// SPDX-License-Identifier: Apache-2.0
#include "format/canonical.h"
#include "format/dumps/tree.h"
#include "format/metadata.h"
#include "format/salvage.h"
#include "format/stored_message.h"
#include "fuzz/support.h"

using namespace gradcodec;

namespace {

DecompressOptions options_for_strangers() {
  DecompressOptions options;
  options.wanted = [](const TensorInfo&) { return true; };
  options.memory = fuzz::kMemory;
  return options;
}

void decompress_all(const std::shared_ptr<const RandomFile>& file) {
  InputStream input(file);
  ContainerReader reader(input, fuzz::kMemory);
  if (!reader.begin() || reader.kind() == FileKind::schema || !fuzz::is_small(reader.schema())) return;
  check_holds_tensors(reader.kind(), reader.schema());
  check_claims(input, reader.schema());
  if (!reader.metadata().empty()) metadata_json(reader.metadata());
  if (!reader.tree().empty()) parse_tree(reader.tree());
  const DecompressOptions options = options_for_strangers();
  MemorySink sink;
  Progress progress;
  const MessageId id = id_of(reader.schema(), reader.message(), reader.kind());
  const auto decoded = decompress(reader, reader.schema(), id, options, &sink, progress);
  compare_digests(reader.schema(), options, reader.finish(), decoded);
  reader.expect_end_of_input();
}

void salvage(const std::shared_ptr<const RandomFile>& file) {
  const DamagedFile damaged(file, fuzz::kMemory);
  if (!fuzz::is_small(damaged.schema())) return;
  const DecompressOptions options = options_for_strangers();
  Progress progress;
  MemorySink sink;
  Salvager(damaged, options, progress).write(false, sink, progress);
}

void look(const std::shared_ptr<const RandomFile>& file) {
  {
    InputStream input(file);
    ContainerReader reader(input, fuzz::kMemory);
    if (!reader.begin() || reader.kind() == FileKind::schema || !fuzz::is_small(reader.schema())) return;
  }
  Progress progress;
  const StoredMessage message(file, 1, fuzz::kMemory, progress);
  check_canonical(message, 1, fuzz::kMemory, progress);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = fuzz::file_of(fuzz::bytes_of(data, size));
  fuzz::expect_error_or_nothing([&] { decompress_all(file); });
  fuzz::expect_error_or_nothing([&] { salvage(file); });
  fuzz::expect_error_or_nothing([&] { look(file); });
  return 0;
}
