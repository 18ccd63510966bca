// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/npy.h"

#include <utility>

#include "codec/error.h"
#include "format/dumps/sink_order.h"
#include "format/dumps/swap_bytes.h"
#include "format/dumps/transpose.h"

namespace gradcodec {
namespace {

class NpyData : public TensorData {
 public:
  NpyData(std::shared_ptr<const RandomFile> file, uint64_t offset, const TensorInfo& info, bool swap)
      : file_(std::move(file)), offset_(offset), item_size_(info.dtype.item_size()), size_(info.size()) {
    if (swap) swapped_word_ = info.dtype.word_size();
  }

  void read(Range range, std::span<std::byte> out) const override {
    if (range.first > size_ || range.count > size_ - range.first || out.size() != range.count * item_size_) {
      throw Error(Exit::bug, "a read passes the end of the tensor");
    }
    file_->read_at(offset_ + range.first * item_size_, out);
    if (swapped_word_ != 0) swap_bytes(out, swapped_word_);
  }

 private:
  std::shared_ptr<const RandomFile> file_;
  uint64_t offset_, item_size_, size_;
  unsigned swapped_word_ = 0;  // bytes of the words to be swapped; 0 if none
};

class NpySource : public Source {
 public:
  NpySource(std::shared_ptr<RandomFile> file, const SourceOptions& options) : file_(std::move(file)) {
    uint64_t at = 0;
    const auto read_next = [&](std::span<std::byte> out) {
      file_->read_at(at, out);
      at += out.size();
    };
    const NpyHeader header = read_npy_header(file_->size(), read_next, options.as_bf16);
    tensors_.push_back(npy_tensor_info("array", header, file_->size()));
    elements_ = {header.size, header.big_endian, header.fortran_order};
  }

  DumpKind kind() const override { return DumpKind::npy; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  std::unique_ptr<TensorData> open(size_t ordinal) override {
    return open_npy_elements(file_, tensors_.at(ordinal), elements_);
  }

 private:
  std::shared_ptr<RandomFile> file_;
  std::vector<TensorInfo> tensors_;
  NpyElements elements_;
};

class NpySink : public Sink {
 public:
  NpySink(OutputFile& output, const std::vector<TensorInfo>& tensors) : output_(output), order_(tensors) {}

  void begin(const TensorInfo& info) override {
    order_.begin(info);
    output_.write(make_npy_header(info));
  }

  void write(ByteView elements) override {
    order_.write(elements.size());
    output_.write(elements);
  }

  void end() override { order_.end(); }

  void finish() override {
    order_.finish();
    output_.commit();
  }

 private:
  OutputFile& output_;
  SinkOrder order_;
};

}  // namespace

std::unique_ptr<Source> open_npy(std::shared_ptr<RandomFile> file, const SourceOptions& options) {
  return std::make_unique<NpySource>(std::move(file), options);
}

std::unique_ptr<Sink> make_npy_sink(OutputFile& output, const std::vector<TensorInfo>& tensors) {
  if (tensors.size() != 1) {
    throw Error(Exit::usage, "an .npy file holds one tensor, here are " + std::to_string(tensors.size()) +
                                 ": write .npz or .h5, or choose one with --only");
  }
  return std::make_unique<NpySink>(output, tensors);
}

TensorInfo npy_tensor_info(std::string name, const NpyHeader& header, uint64_t size) {
  TensorInfo info{std::move(name), header.dtype, header.shape};
  check_tensor_info(info);
  const uint64_t expected = header.size + info.byte_size();
  if (size != expected) {
    throw Error(Exit::bad_input, std::string(size < expected ? "too short" : "too long") + ": header and shape say " +
                                     std::to_string(expected) + " bytes, " + std::to_string(size) + " are there")
        .in_tensor(info.name);
  }
  return info;
}

std::unique_ptr<TensorData> open_npy_elements(std::shared_ptr<const RandomFile> file, const TensorInfo& info,
                                              const NpyElements& elements) {
  uint64_t offset = elements.offset;
  if (elements.fortran_order && order_matters(info.shape)) {
    file = to_c_order(*file, offset, info.shape, info.dtype.item_size());
    offset = 0;
  }
  return std::make_unique<NpyData>(std::move(file), offset, info, elements.big_endian);
}

}  // namespace gradcodec
