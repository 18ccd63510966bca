// SPDX-License-Identifier: Apache-2.0
#include "format/spool.h"

#include <utility>

namespace gradcodec {
namespace {

class SpooledTensor final : public TensorData {
 public:
  SpooledTensor(std::shared_ptr<const RandomFile> file, uint64_t start, uint64_t item_size)
      : file_(std::move(file)), start_(start), item_size_(item_size) {}

  void read(Range range, std::span<std::byte> out) const override {
    file_->read_at(start_ + range.first * item_size_, out);
  }

 private:
  std::shared_ptr<const RandomFile> file_;
  uint64_t start_, item_size_;
};

}  // namespace

Spool::Spool(DumpKind kind, Bytes tree, std::vector<TensorInfo> tensors)
    : kind_(kind), tree_(std::move(tree)), tensors_(std::move(tensors)), file_(RandomFile::temporary()) {}

void Spool::begin(const TensorInfo&) { starts_.push_back(end_); }

void Spool::write(ByteView elements) {
  file_->write_at(end_, elements);
  end_ += elements.size();
}

std::unique_ptr<TensorData> Spool::open(size_t ordinal) {
  return std::make_unique<SpooledTensor>(file_, starts_[ordinal], tensors_[ordinal].dtype.item_size());
}

}  // namespace gradcodec
