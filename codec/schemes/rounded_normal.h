// The quantizer that `rotq` puts below a rotation: stochastic rounding to levels that are the best for a normal law,
// the outer ones as far out as the bucket's largest value. So it is unbiased exactly, for any rotation, which nearest
// levels (nearest_normal.h) are not.
//
// With unit U and top T of a bucket the 2^bits levels are +-float32(U l) for l of normal::rounding_levels(bits), and
// +-T. U is the root mean square, but at most a third of the largest magnitude, and T is that magnitude.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "codec/scan.h"
#include "codec/scheme.h"

namespace gradcodec {

struct RoundedLayout {
  unsigned bits;    // 2 to 4: symbols are below 2^bits
  uint64_t bucket;  // values that share unit and top. Buckets restart in each chunk
};

// What a bucket stores; both 0 if all of it is 0.
struct RoundedScale {
  float unit = 0;  // else from 2^-120 to 2^126
  float top = 0;   // else above the largest of the other levels, and at most 2^126

  bool operator==(const RoundedScale&) const = default;
};

RoundedScale rounded_scale_of(std::span<const float> y);

class RoundedNormalDecoder final : public Decoder {
 public:
  RoundedNormalDecoder(const RoundedLayout& layout, const Inputs& inputs)
      : layout_(layout), draws_(inputs.random.draws(Purpose::rounding, inputs.stage)) {}

  Bytes stored() const override { return {}; }
  std::optional<uint64_t> params_size(Range range) const override;
  StreamShapes streams(const Code&, Range range) const override;
  std::string describe() const override;
  void contexts(const Code& code, size_t stream, Range range, std::span<uint16_t> out) const override;
  void decode(const Code& code, Range range, std::span<float> out) const override;
  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override;

  const RoundedLayout& layout() const { return layout_; }
  const kernels::Draws& draws() const { return draws_; }

 private:
  RoundedLayout layout_;
  kernels::Draws draws_;
};

class RoundedNormalEncoder final : public Encoder {
 public:
  // The tensor has regular values alone.
  RoundedNormalEncoder(const Tensor& tensor, const RoundedLayout& layout, const Inputs& inputs);

  const Decoder& decoder() const override { return decoder_; }
  void encode(Range range, Code& code, std::span<float> decoded) const override;
  Promise promise() const override;

 private:
  const Tensor& tensor_;
  Chunks chunks_;
  RoundedNormalDecoder decoder_;
};

}  // namespace gradcodec
