// The quantizer to the nearest of the best levels for a normal law, which `drive` and `eden` put below a rotation: a
// value y of a bucket becomes the centroid c nearest to y / sigma, sigma the bucket's root mean square, and decodes to
// S c with a scale S for each bucket. (Vargaftik et al., "DRIVE", arXiv 2105.08339, section 3; "EDEN", arXiv
// 2108.08842.)
//
// Nothing is drawn here. With q the bucket's centroids, S is either
//   unbiased:       ||y||^2 / <q, y>      then <S q, y> = ||y||^2, and ||S q - y||^2 = S^2 ||q||^2 - ||y||^2
//   least squares:  <q, y> / ||q||^2      then S q - y is orthogonal to q: the error is ||y||^2 - <q, y>^2 / ||q||^2
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "codec/scan.h"
#include "codec/scheme.h"

namespace gradcodec {

enum class NormalScale : uint8_t { unbiased, least_squares };

struct NormalLayout {
  unsigned bits;    // 1 to 4: symbols are below 2^bits
  uint64_t bucket;  // values that share a scale. Buckets restart in each chunk
};

// The nearest centroid of each value of a bucket whose root mean square is sigma > 0. Centroids are numbered upwards
// from the most negative one. A value halfway between two (thresholds are rounded to float32) becomes the one nearer to
// 0, and one of 0, of either sign, the smallest positive one.
void nearest_centroids(std::span<const float> y, double sigma, unsigned bits, std::span<uint16_t> symbols);

// Both of a bucket: its symbols, and its scale as it is stored. If the scale would be below 2^-126 it is 0, as it is
// for zeros alone; all symbols are those of 0 then.
float fit_bucket(std::span<const float> y, unsigned bits, NormalScale kind, std::span<uint16_t> symbols);

class NearestNormalDecoder final : public Decoder {
 public:
  explicit NearestNormalDecoder(const NormalLayout& layout) : layout_(layout) {}

  Bytes stored() const override { return {}; }
  std::optional<uint64_t> params_size(Range range) const override;
  StreamShapes streams(const Code&, Range range) const override { return {{1U << layout_.bits, range.count}}; }
  std::string describe() const override;
  void decode(const Code& code, Range range, std::span<float> out) const override;
  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override;

  const NormalLayout& layout() const { return layout_; }

 private:
  NormalLayout layout_;
};

class NearestNormalEncoder final : public Encoder {
 public:
  // The tensor has regular values alone.
  NearestNormalEncoder(const Tensor& tensor, const NormalLayout& layout, const Inputs& inputs, NormalScale kind)
      : tensor_(tensor), chunks_(tensor.size(), inputs), decoder_(layout), kind_(kind) {}

  const Decoder& decoder() const override { return decoder_; }
  void encode(Range range, Code& code, std::span<float> decoded) const override;
  Promise promise() const override;

 private:
  const Tensor& tensor_;
  Chunks chunks_;
  NearestNormalDecoder decoder_;
  NormalScale kind_;
};

}  // namespace gradcodec
