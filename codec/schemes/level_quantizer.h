// The quantizer with a table of levels, which schemes that choose their levels are presets of: each value is rounded at
// random to one of its two neighbours in the table, without bias. spec/schemes/level_quantizer.md.
//
// Either the levels are the decoded values, or a tensor or bucket has a scale N and float32(N l) is decoded. The
// encoder rounds against these float32 numbers, so that nothing but the grain of the draws (2^-24 of an interval) is
// between what is promised and what is decoded: the variance of x between neighbours lo and hi is (x - lo)(hi - x).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codec/levels/table.h"
#include "codec/scan.h"
#include "codec/scheme.h"

namespace gradcodec {

// How both sides lay a tensor out. A preset makes it from its parameters and from what it stores.
struct LevelLayout {
  std::vector<float> levels = {};  // increasing, finite; none: every value is +0, and so is every symbol
  bool scaled = false;             // N l is decoded, else l
  uint64_t bucket = 0;             // elements that share a scale; 0: one for the tensor. Buckets restart in each chunk
  float scale = 0;                 // of the whole tensor, if scaled and bucket is 0
  std::vector<float> fitted = {};  // what Decoder::fitted_levels says
  Bytes stored = {};               // what the preset stores of the levels, in front of the scale
  std::string description = {};    // of the levels, for people
};

class LevelDecoder final : public Decoder {
 public:
  // The levels, if there are any, are two or more; if scaled, such as scale_range takes.
  LevelDecoder(LevelLayout layout, const Inputs& inputs);

  // Takes the scale, if the tensor has one, from `stored`, where the preset has taken its own.
  static std::unique_ptr<Decoder> restore(LevelLayout layout, ByteReader& stored, const Inputs& inputs);

  Bytes stored() const override;
  std::optional<uint64_t> params_size(Range range) const override;
  StreamShapes streams(const Code& code, Range range) const override;
  std::span<const float> fitted_levels() const override { return layout_.fitted; }
  std::string describe() const override;
  void contexts(const Code& code, size_t stream, Range range, std::span<uint16_t> out) const override;
  void decode(const Code& code, Range range, std::span<float> out) const override;
  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override;

  const LevelLayout& layout() const { return layout_; }
  const kernels::Draws& draws() const { return draws_; }
  bool has_buckets() const { return layout_.scaled && layout_.bucket != 0; }
  uint32_t alphabet() const { return std::max(1U, static_cast<uint32_t>(layout_.levels.size())); }
  uint16_t rest() const { return rest_; }  // the symbol where nothing is to be decoded

 private:
  bool is_scale(float scale) const { return scale == 0 ? !std::signbit(scale) : range_.has(scale); }
  void check_symbols(const Code& code, size_t at, size_t count, float scale) const;
  void check_exceptions(const Code& code) const;

  LevelLayout layout_;
  kernels::Draws draws_;
  ScaleRange range_;
  uint16_t rest_;
  bool antisymmetric_;
};

// The scale of a bucket from its values, irregular ones replaced by 0: 0 only if all are 0, else one of covering_scale.
using ScaleRule = std::function<float(std::span<const float> values)>;

// What an encoder is told beside the layout.
struct LevelChoice {
  bool clip = false;                 // values beyond the last levels are limited to them: what is promised is for these
  bool exceptions = false;           // some value of the tensor must be set aside
  ScaleRule rule = {};               // if the layout has buckets
  std::optional<double> omega = {};  // kept unless a scale had to be raised to the least usable one
};

// A tensor's values, limited to [low, high]; NaN and what is beyond 2^126 are as they were.
class Limited final : public Tensor {
 public:
  Limited(const Tensor& tensor, float low, float high) : tensor_(tensor), low_(low), high_(high) {}
  uint64_t size() const override { return tensor_.size(); }
  std::span<const uint64_t> shape() const override { return tensor_.shape(); }
  std::span<const float> read(Range range, std::span<float> scratch) const override;

 private:
  const Tensor& tensor_;
  float low_, high_;
};

class LevelEncoder final : public Encoder {
 public:
  // Without `clip`, every regular value of the tensor lies among the levels, scaled as the layout or the rule says.
  LevelEncoder(const Tensor& tensor, LevelLayout layout, const Inputs& inputs, LevelChoice choice);

  const Decoder& decoder() const override { return decoder_; }
  void encode(Range range, Code& code, std::span<float> decoded) const override;
  Promise promise() const override;

 private:
  std::span<const float> read(Range range, Code& code) const;
  float scale_of(std::span<const float> run) const;
  std::span<const float> table_of(float scale, std::vector<float>& room) const;

  const Tensor& tensor_;
  LevelDecoder decoder_;
  LevelChoice choice_;
  Limited limited_;
  Chunks chunks_;
};

}  // namespace gradcodec
