// Dumps in memory and messages made of them, right and wrong, for tests of what reads messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codec/registry.h"
#include "codec/values.h"
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

// A dump whose tensors are in memory.
class MemorySource final : public Source {
 public:
  MemorySource& add(const std::string& name, const std::string& type, std::vector<uint64_t> shape, Bytes elements) {
    infos_.push_back({name, DType::parse(type), std::move(shape)});
    REQUIRE(infos_.back().byte_size() == elements.size());
    elements_.push_back(std::move(elements));
    return *this;
  }

  // float32 values, rounded to `type`.
  MemorySource& add_values(const std::string& name, const std::string& type, std::vector<uint64_t> shape,
                           const std::vector<float>& values) {
    const DType dtype = DType::parse(type);
    Bytes elements(values.size() * dtype.item_size());
    round_to(values, dtype, 0, elements);
    return add(name, type, std::move(shape), std::move(elements));
  }

  DumpKind kind() const override { return DumpKind::npz; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  std::unique_ptr<TensorData> open(size_t ordinal) override {
    return std::make_unique<Data>(elements_[ordinal], infos_[ordinal].dtype.item_size());
  }
  const Bytes& elements(size_t ordinal) const { return elements_[ordinal]; }

 private:
  class Data final : public TensorData {
   public:
    Data(const Bytes& elements, uint64_t item) : elements_(elements), item_(item) {}
    void read(Range range, std::span<std::byte> out) const override {
      REQUIRE((range.first + range.count) * item_ <= elements_.size());
      if (!out.empty()) std::memcpy(out.data(), elements_.data() + range.first * item_, out.size());
    }

   private:
    const Bytes& elements_;
    uint64_t item_;
  };

  std::vector<TensorInfo> infos_;
  std::vector<Bytes> elements_;
};

// n values of about normal size, from a fixed generator.
inline std::vector<float> made_values(size_t n, uint32_t key = 1) {
  std::vector<uint32_t> words(2 * n + 1);
  kernels::scalar::philox_words({{key, 2}, 0, 0}, 0, words.size(), words.data());
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    out[i] = (static_cast<float>(words[2 * i] >> 8) - static_cast<float>(words[2 * i + 1] >> 8)) * 0x1p-24F;
  }
  return out;
}

// Every edge: several chunks, one element, none, rank 0, exceptions, raw, narrow and wide types, a constant.
inline MemorySource edges() {
  MemorySource source;
  std::vector<float> special = made_values(5000, 3);
  special[7] = std::numeric_limits<float>::quiet_NaN();
  special[4096] = -std::numeric_limits<float>::infinity();
  source.add_values("long", "f4", {3, 3000}, made_values(9000));
  source.add_values("one", "f4", {1}, {0.5F});
  source.add_values("none", "f4", {0, 3}, {});
  source.add_values("scalar", "f4", {}, {-2.0F});
  source.add_values("special", "f4", {5000}, special);
  source.add_values("half", "f2", {4100}, made_values(4100, 4));
  source.add_values("brain", "bf16", {4100}, made_values(4100, 5));
  source.add_values("double", "f8", {10}, made_values(10, 6));
  source.add_values("zeros", "f4", {100}, std::vector<float>(100, 0.0F));
  Bytes integers(4 * 4099);
  for (size_t i = 0; i < integers.size(); ++i) integers[i] = static_cast<std::byte>(i * i >> 3);
  source.add("integers", "i4", {4099}, integers);
  source.add("text", "S3", {2}, Bytes(6, std::byte{'a'}));
  return source;
}

// What decompress writes, by tensor.
class MemorySink final : public Sink {
 public:
  void begin(const TensorInfo& info) override { current_ = &elements[info.name]; }
  void write(ByteView bytes) override { put_bytes(*current_, bytes); }
  void end() override {}
  void finish() override {}

  std::map<std::string, Bytes> elements;

 private:
  Bytes* current_ = nullptr;
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
