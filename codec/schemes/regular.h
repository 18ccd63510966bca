// A tensor whose values that are not regular are 0, for schemes that set these aside before others see them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>

#include "codec/kernels/kernels.h"
#include "codec/tensor.h"

namespace gradcodec {

inline bool is_regular(float x) { return (std::bit_cast<uint32_t>(x) & 0x7FFFFFFF) <= kernels::kMaxRegularBits; }

class Regular final : public Tensor {
 public:
  // `any`: whether some value is not regular. The tensor outlives this.
  Regular(const Tensor& tensor, bool any) : tensor_(tensor), any_(any) {}
  uint64_t size() const override { return tensor_.size(); }
  std::span<const uint64_t> shape() const override { return tensor_.shape(); }
  std::span<const float> read(Range range, std::span<float> scratch) const override {
    const std::span<const float> x = tensor_.read(range, scratch);
    if (!any_) return x;
    std::transform(x.begin(), x.end(), scratch.begin(), [](float value) { return is_regular(value) ? value : 0.0F; });
    return scratch.first(x.size());
  }

 private:
  const Tensor& tensor_;
  bool any_;
};

}  // namespace gradcodec
