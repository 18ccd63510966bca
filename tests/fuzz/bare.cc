// A bare message of arbitrary bytes behind a schema file of arbitrary bytes, whose length is the first two bytes.
// SPDX-License-Identifier: Apache-2.0
#include "format/bare.h"

#include <cstring>

#include "fuzz/support.h"

using namespace gradcodec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint16_t length = 0;
  if (size < sizeof(length)) return 0;
  std::memcpy(&length, data, sizeof(length));
  const ByteView rest = fuzz::bytes_of(data, size).subspan(sizeof(length));
  const size_t split = std::min<size_t>(length, rest.size());
  fuzz::expect_error_or_nothing([&] {
    const Schema schema = parse_schema(rest.first(split), fuzz::kMemory);
    if (!fuzz::is_small(schema)) return;
    // Nobody knows the digest of a schema by chance, nor the check over all.
    Bytes message(rest.begin() + static_cast<std::ptrdiff_t>(split), rest.end());
    const uint64_t digest = schema_digest(schema);
    if (message.size() >= 14) std::memcpy(message.data() + 6, &digest, sizeof(digest));
    if (message.size() >= 22) {
      const uint64_t check = checksum(ByteView(message).first(message.size() - 8), digest);
      std::memcpy(message.data() + message.size() - 8, &check, sizeof(check));
    }
    InputStream input(fuzz::file_of(message));
    BareReader reader(input, schema, fuzz::kMemory);
    DecompressOptions options;
    options.wanted = [](const TensorInfo&) { return true; };
    options.memory = fuzz::kMemory;
    Progress progress;
    MemorySink sink;
    reader.decompress_into(options, &sink, progress);
  });
  return 0;
}
