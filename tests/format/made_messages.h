// Dumps in memory and messages made of them, right and wrong, for tests of what reads messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "codec/registry.h"
#include "format/memory_dump.h"
#include "format/pipeline.h"
#include "format/writer.h"

namespace gradcodec {

class TemporaryFile {
 public:
  TemporaryFile() {
    char path[] = "/tmp/gradcodec-test-XXXXXX";
    const int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    close(fd);
    path_ = path;
  }
  explicit TemporaryFile(const Bytes& bytes) : TemporaryFile() { write(bytes); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::remove(path_.c_str()); }

  const std::string& path() const { return path_; }
  Bytes bytes() const {
    std::ifstream in(path_, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const ByteView view = as_bytes(text);
    return {view.begin(), view.end()};
  }
  void write(const Bytes& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::string path_;
};

inline CompressOptions options_for(const std::string& scheme, const std::string& coder = "pack") {
  CompressOptions options;
  options.scheme = parse_scheme(scheme);
  options.coders = {&coder_named(coder), &coder_named(coder)};
  options.id.seed = 42;
  options.nonfinite = Nonfinite::keep;
  options.chunk_log2 = 12;
  return options;
}

inline void compress_to(const std::string& path, Source& source, const CompressOptions& options, ByteView tree = {},
                        ByteView metadata = {}) {
  const Schema schema = plan_schema(source, options);
  std::vector<SchemeChoice> choices;
  for (const StoredScheme& stored : schema.schemes) {
    choices.push_back(stored.text == options.scheme.stored_text() ? options.scheme : parse_scheme(stored.text));
  }
  OutputFile output(path, true, {});
  ContainerWriter writer(output);
  writer.begin(schema, tree, metadata, plan_message(schema, options.id));
  Progress progress;
  compress(source, schema, choices, options, writer, progress);
  output.commit();
}

}  // namespace gradcodec
