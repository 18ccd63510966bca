// A random rotation block by block, below which any quantizer works: signs, then the Walsh-Hadamard transform
// (codec/kernels/hadamard.h). `rotate`, `drive`, `eden` and `rotq` are presets over it. spec/schemes/rotation.md.
//
// A rotation keeps norms and inner products, so an unbiased quantizer stays unbiased, and its squared error is what it
// was; but a block's values are all of about the same size after it, near to a normal law, however the block was.
// (Suresh et al., "Distributed mean estimation with limited communication", arXiv 1611.00429, section 3.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "codec/scan.h"
#include "codec/scheme.h"

namespace gradcodec {

inline constexpr ParamSpec kBlockParam = {.kind = ParamSpec::integer,
                                          .name = "block",
                                          .help = "elements that are rotated together, a power of two",
                                          .min = 2,
                                          .max = 1 << 18,
                                          .fallback = "4096",
                                          .decoder_needs = true};

inline constexpr ParamSpec kSharedParam = {.kind = ParamSpec::choice,
                                           .name = "shared",
                                           .help = "yes: all workers of a step have the same rotation",
                                           .choices = "no|yes",
                                           .fallback = "no",
                                           .decoder_needs = true};

// Throws Error(usage) unless the block is a power of two.
void check_block(const Params& params);

// Values beyond are set aside: a block of them has a norm of 2^105, and so may each of its rotated values.
inline constexpr double kMaxRotated = 0x1p96;

// Decoded rotated values are limited to this magnitude, so that no sum of a block overflows. None that comes of values
// up to kMaxRotated by a step of at most 2^107 is so large.
inline constexpr float kMaxDecodedRotated = 0x1p108F;

// Where the blocks of each chunk are, and where they lie in the rotated tensor. A chunk of n elements has floor(n /
// block) blocks of `block`; what is left over is filled up with zeros to a power of two. So whatever its length, a
// chunk is rotated alone, and only its last block is filled up.
class BlockPlan {
 public:
  BlockPlan(uint64_t block, const Inputs& inputs);
  uint64_t block() const { return block_; }

  // How many rotated values a chunk of `count` elements has.
  uint64_t padded(uint64_t count) const;

  // Those of a whole chunk, in the rotated tensor.
  Range rotated(Range chunk) const;

  // Of the rotated tensor, for a tensor of `size` elements.
  uint64_t rotated_size(uint64_t size) const;

  // `inputs` for the scheme below, whose tensor is the rotated one: its size, too. Refers to this plan.
  Inputs below(const Inputs& inputs) const;

 private:
  uint64_t block_, chunk_len_;
  std::span<const uint64_t> ends_;
  std::vector<uint64_t> rotated_ends_;
};

// The rotation of one tensor: what encoder and decoder share.
struct Rotation {
  BlockPlan plan;
  kernels::Draws signs;
  bool shared = false;  // signs are the same for all workers of a step

  // From parameters `block` and `shared`.
  static std::shared_ptr<const Rotation> of(const Params& params, const Inputs& inputs);
};

// Rotates, in place, n elements from a block's first on, to the chunk's end or a block's; the first's coordinate in the
// tensor is `first`. `values` holds padded(n) floats: the elements, then anything.
void rotate_blocks(std::span<float> values, uint64_t n, const Rotation& rotation, uint64_t first);

// The inverse; the first n are the elements then. Rotated values are limited to kMaxDecodedRotated.
void rotate_blocks_back(std::span<float> values, uint64_t n, const Rotation& rotation, uint64_t first);

// The rotated values of a tensor, computed as they are read, whole blocks at a time. Values that are not finite, or
// beyond kMaxRotated, count as 0.
class Rotated final : public Tensor {
 public:
  // `irregular`: there are such values. Tensor and rotation outlive it.
  Rotated(const Tensor& tensor, const Rotation& rotation, const Inputs& inputs, bool irregular);
  uint64_t size() const override { return size_[0]; }
  std::span<const uint64_t> shape() const override { return size_; }
  std::span<const float> read(Range range, std::span<float> scratch) const override;

 private:
  Range chunk_at(uint64_t at) const;
  void read_blocks(Range chunk, uint64_t at, std::span<float> out) const;

  const Tensor& tensor_;
  const Rotation& rotation_;
  Chunks chunks_;
  bool irregular_;
  std::vector<uint64_t> size_;
};

class RotationDecoder final : public Decoder {
 public:
  // `inner` outlives it.
  RotationDecoder(std::shared_ptr<const Rotation> rotation, const Decoder& inner)
      : rotation_(std::move(rotation)), inner_(&inner) {}
  RotationDecoder(std::shared_ptr<const Rotation> rotation, std::unique_ptr<Decoder> inner)
      : rotation_(std::move(rotation)), owned_(std::move(inner)), inner_(owned_.get()) {}

  Bytes stored() const override { return inner_->stored(); }
  std::optional<uint64_t> params_size(Range) const override { return 0; }
  StreamShapes streams(const Code&, Range) const override { return {}; }
  const Decoder* inner() const override { return inner_; }
  Range inner_range(const Code&, Range range) const override { return rotation_->plan.rotated(range); }
  std::string describe() const override;
  void decode(const Code& code, Range range, std::span<float> out) const override;

  // Laws are those of the rotated values; of the last stage, if there are several. Of a scheme below that draws before
  // it rounds none are known here: they are of its own targets.
  Before before() const override { return Before::transform; }
  uint64_t domain(Range range) const override;
  void decode_domain(const Code& code, Range range, std::span<float> out) const override;
  void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const override;
  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override;
  bool shares_draws() const override { return rotation_->shared; }

 private:
  bool is_below(Before before) const { return inner_->before() == before; }

  std::shared_ptr<const Rotation> rotation_;
  std::unique_ptr<Decoder> owned_;
  const Decoder* inner_;
};

class RotationEncoder final : public Encoder {
 public:
  // The encoder below, of the rotated tensor, which outlives it.
  using MakeInner = std::function<std::unique_ptr<Encoder>(const Tensor& rotated, const Inputs& below)>;

  // Reads the tensor once, and as often as `make_inner` does. Throws Error(bad_input) on values that the policy
  // refuses.
  RotationEncoder(const Tensor& tensor, std::shared_ptr<const Rotation> rotation, const Inputs& inputs,
                  const MakeInner& make_inner);

  const Decoder& decoder() const override { return *decoder_; }
  void encode(Range range, Code& code, std::span<float> decoded) const override;

  // Unbiased, omega-unbiased or a contraction as the quantizer below is: rotations keep norms, and what is filled up
  // and dropped again only lowers the error.
  Promise promise() const override;

 private:
  const Tensor& tensor_;
  std::shared_ptr<const Rotation> rotation_;
  bool exceptions_;
  std::unique_ptr<Rotated> rotated_;
  std::unique_ptr<Encoder> inner_;
  std::unique_ptr<RotationDecoder> decoder_;
};

}  // namespace gradcodec
