// What the memories share: a tensor that what is remembered has changed, and an encoder that codes it by the scheme
// below and then remembers what came of it. Nothing of it is in the file but what the scheme below stores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "codec/memory.h"
#include "codec/scheme.h"

namespace gradcodec {

// out = (x + b v1) + a v0 in float64, rounded to float32, for the values x of `range`: v0 and v1 are what is
// remembered; a vector that is not there is all zeros. Values that are not finite are as they were. `out` may be x.
// Throws Error(bad_input) naming the element where a sum passes what float32 can hold.
void shift_values(Range range, std::span<const float> x, const Memory& memory, double a, double b,
                  std::span<float> out);

// The tensor of these sums. Without memory it is x.
class Shifted final : public Tensor {
 public:
  // Tensor and memory (null: none) outlive it.
  Shifted(const Tensor& tensor, const Memory* memory, double a, double b = 0)
      : tensor_(tensor), memory_(memory), a_(a), b_(b) {}
  uint64_t size() const override { return tensor_.size(); }
  std::span<const uint64_t> shape() const override { return tensor_.shape(); }

  // Throws what shift_values throws.
  std::span<const float> read(Range range, std::span<float> scratch) const override;

 private:
  const Tensor& tensor_;
  const Memory* memory_;
  double a_, b_;
};

class RememberingEncoder : public Encoder {
 public:
  // The scheme below, prepared on the shifted tensor. Tensor and memory outlive it.
  RememberingEncoder(const Tensor& tensor, const Inputs& inputs, double a, double b = 0);

  const Decoder& decoder() const override { return inner_->decoder(); }
  void encode(Range range, Code& code, std::span<float> decoded) const override;
  void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const override;
  const Tensor* shifted() const override { return memory_ == nullptr ? nullptr : &shifted_; }
  std::string warning() const override { return inner_->warning(); }

  // That of the scheme below, for the shifted tensor.
  Promise promise() const override;

 protected:
  const Memory* memory() const { return memory_; }
  const Encoder& inner() const { return *inner_; }

  // What follows from `values`, which the scheme below decodes to (empty: nobody knows). They become what this decodes
  // to. `x`, what was to be sent: if it is not empty, the memory of `range` is brought to the next step; values that
  // are not finite leave it as it was.
  virtual void settle(Range range, std::span<const float> x, std::span<float> values) const = 0;

 private:
  const Tensor& tensor_;
  const Memory* memory_;
  double a_, b_;
  Shifted shifted_;
  std::unique_ptr<Encoder> inner_;
};

// Throws Error(usage) if the encoder does not know what the scheme's decoder gives, so that nobody can remember it.
void check_known(const Encoder& inner, std::string_view memory);

// The decoder of the scheme below such a memory. Throws what its restore throws, and Error(bad_input) where check_known
// would.
std::unique_ptr<Decoder> restore_known(ByteReader& stored, const Inputs& inputs);

}  // namespace gradcodec
