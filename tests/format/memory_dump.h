// Dumps in memory, for tests and fuzzing: what is compressed, and what decompress writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "codec/kernels/kernels.h"
#include "codec/values.h"
#include "format/dumps/sink.h"
#include "format/dumps/source.h"

namespace gradcodec {

// A dump whose tensors are in memory.
class MemorySource final : public Source {
 public:
  MemorySource& add(const std::string& name, const std::string& type, std::vector<uint64_t> shape, Bytes elements) {
    infos_.push_back({name, DType::parse(type), std::move(shape)});
    if (infos_.back().byte_size() != elements.size()) throw std::logic_error("elements do not fit the shape");
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
      if ((range.first + range.count) * item_ > elements_.size()) throw std::logic_error("read past the end");
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

}  // namespace gradcodec
