// A dump of float32 tensors in memory, for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "format/dumps/source.h"

namespace gradcodec {

// `values`, `repeat` times one after another.
struct MemoryTensor {
  std::string name;
  std::vector<float> values;
  uint64_t repeat = 1;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::vector<MemoryTensor> tensors) : tensors_(std::move(tensors)) {
    for (const MemoryTensor& tensor : tensors_) {
      infos_.push_back({tensor.name, {}, {tensor.values.size() * tensor.repeat}});
    }
  }

  DumpKind kind() const override { return DumpKind::npz; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  std::unique_ptr<TensorData> open(size_t ordinal) override { return std::make_unique<Data>(tensors_.at(ordinal)); }

 private:
  class Data final : public TensorData {
   public:
    explicit Data(const MemoryTensor& tensor) : values_(tensor.values) {}
    void read(Range range, std::span<std::byte> out) const override {
      size_t at = 0;
      while (at < out.size()) {
        const size_t first = static_cast<size_t>((range.first + at / sizeof(float)) % values_.size());
        const size_t size = std::min((values_.size() - first) * sizeof(float), out.size() - at);
        std::memcpy(out.data() + at, values_.data() + first, size);
        at += size;
      }
    }

   private:
    const std::vector<float>& values_;
  };

  std::vector<MemoryTensor> tensors_;
  std::vector<TensorInfo> infos_;
};

}  // namespace gradcodec
