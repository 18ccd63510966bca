// A dump in a temporary file: tensors that come once, for what reads them as often as it likes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/dumps/sink.h"
#include "format/dumps/source.h"
#include "format/files.h"

namespace gradcodec {

// Filled as a Sink, and read as a Source once it is finished. Throws Error(io).
class Spool final : public Sink, public Source {
 public:
  // Source::kind and Source::tree are those given.
  Spool(DumpKind kind, Bytes tree, std::vector<TensorInfo> tensors);

  void begin(const TensorInfo& info) override;
  void write(ByteView elements) override;
  void end() override {}
  void finish() override {}

  DumpKind kind() const override { return kind_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::unique_ptr<TensorData> open(size_t ordinal) override;
  Bytes tree() const override { return tree_; }

 private:
  DumpKind kind_;
  Bytes tree_;
  std::vector<TensorInfo> tensors_;
  std::shared_ptr<RandomFile> file_;
  std::vector<uint64_t> starts_;
  uint64_t end_ = 0;
};

}  // namespace gradcodec
