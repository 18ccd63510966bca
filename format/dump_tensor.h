// The values of a tensor of a dump: float32, as schemes see them, or float64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "codec/tensor.h"
#include "format/dumps/source.h"

namespace gradcodec {

// The float32 values of a tensor of a float type.
class DumpTensor final : public Tensor {
 public:
  DumpTensor(TensorInfo info, std::unique_ptr<TensorData> data) : info_(std::move(info)), data_(std::move(data)) {}

  const TensorInfo& info() const { return info_; }
  uint64_t size() const override { return info_.size(); }
  std::span<const uint64_t> shape() const override { return info_.shape; }

  // Throws what TensorData::read throws.
  std::span<const float> read(Range range, std::span<float> scratch) const override;

  // The values as float64, exactly, into `out` of range.count. Thread-safe. Throws likewise.
  void read_exactly(Range range, std::span<double> out) const;

  // Whether values were read by `read`, none of which is larger than float32's subnormal numbers, and some were not
  // zero before they became float32: then nothing that is said of the float32 values is true of the tensor.
  bool is_lost() const { return vanishing_ && !normal_; }

 private:
  void look_for_loss(ByteView bytes, std::span<const float> values) const;
  void read_doubles(Range range, std::span<float> out) const;

  TensorInfo info_;
  std::unique_ptr<TensorData> data_;
  mutable std::atomic<bool> normal_ = false, vanishing_ = false;
};

}  // namespace gradcodec
