// What top-k, threshold, random-k, at and mask share: some elements of each chunk are kept, and are a tensor of their
// own for the scheme below, or are stored exactly if there is none; the others decode to +0. Which are kept is a
// selection by key (codec/selection.h): by magnitude, and then the places are listed in the chunk; or by a random word,
// and then the decoder draws them again. Or both sides have a set of places (at). Of mask the places are all there is.
//
// Values that are not regular are exceptions of this stage, and 0 to all that follows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "codec/scan.h"
#include "codec/scheme.h"
#include "codec/selection.h"
#include "codec/summable.h"

namespace gradcodec {

// Scheme::work_per_value of a sparsifier: keys, places and values of what is kept.
inline constexpr unsigned kSparsifierWork = 24;

// What is kept of a tensor. Both sides have it.
struct Kept {
  uint64_t size = 0;                    // of the tensor
  uint64_t chunk_len = 0;               // and how it is cut, as Inputs says it
  std::vector<uint64_t> cuts;           // where its chunks end, if they are uneven
  std::vector<uint64_t> ends;           // where each chunk ends in what is kept
  uint32_t last = 0;                    // of the selection; a decoder has it only if places are drawn
  std::optional<kernels::Draws> draws;  // whose words are the keys; else the keys are those of magnitudes
  bool shared = false;                  // whether the draws are of the step
  bool given = false;                   // places are those where `set` is not 0; all, if it is null
  const Tensor* set = nullptr;          // outlives this
  bool ones = false;                    // places are those that are not 0, and all that is said of them is that

  uint64_t count() const { return ends.empty() ? 0 : ends.back(); }

  // What a value is multiplied by if places are drawn, so that it is unbiased.
  double ratio() const { return static_cast<double>(size) / static_cast<double>(count()); }

  // Which part of what is kept is of the chunk `range`.
  Range of_chunk(Range range) const;

  // Whether places stand in each chunk.
  bool lists() const { return !draws && !given; }

  // Of those that are given.
  void list_given(Range range, std::vector<uint32_t>& places) const;

  // Whether the float32 of these bits is an exception: it is not regular, or once it is scaled it is not, or is so
  // small that float32 would round it more than others.
  bool is_exception(uint32_t bits) const;
};

class SparseDecoder final : public Decoder, public Summable {
 public:
  // `inner`, of what is kept, may be null; it outlives this.
  SparseDecoder(std::shared_ptr<const Kept> kept, const Decoder* inner) : kept_(std::move(kept)), inner_(inner) {}

  // `kept`: only draws and shared, or given and set, or ones, are set.
  static std::unique_ptr<Decoder> restore(Kept kept, ByteReader& stored, const Inputs& inputs);

  Bytes stored() const override;
  std::optional<uint64_t> params_size(Range range) const override;
  void take_params(Range range, ByteReader& payload, Code& code) const override;
  StreamShapes streams(const Code& code, Range range) const override;
  const Decoder* inner() const override { return inner_; }
  Range inner_range(const Code& code, Range range) const override;
  std::string describe() const override;
  void decode(const Code& code, Range range, std::span<float> out) const override;
  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override;

  // What is drawn, over a scheme that errs by chance too, is a stage of its own.
  Before before() const override { return kept_->draws && inner_ != nullptr ? Before::draw : Before::nothing; }
  void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const override;
  void first_laws(const Code& code, Range range, std::span<const float> x, std::span<Law> laws) const override;
  bool shares_draws() const override { return kept_->shared; }

  // What is kept exactly, at places that all workers of a step share.
  const Summable* summable() const override { return kept_->shared && inner_ == nullptr ? this : nullptr; }
  Summands summands() const override { return {.kind = Summands::values, .below = true}; }
  void add_values(const Code& code, double weight, std::span<double> sums) const override;

 private:
  void list_places(const Code& code, Range range, std::vector<uint32_t>& places) const;
  void check_exceptions(const Code& code, std::span<const float> decoded) const;

  std::shared_ptr<const Kept> kept_;
  std::unique_ptr<Decoder> owned_;  // what inner_ is, if it is this one's
  const Decoder* inner_;
};

// What is kept, read chunk by chunk when it is asked for.
class KeptTensor final : public Tensor {
 public:
  // `any`: whether some value may be an exception.
  KeptTensor(const Tensor& tensor, std::shared_ptr<const Kept> kept, bool any);

  uint64_t size() const override { return kept_->count(); }
  std::span<const uint64_t> shape() const override { return shape_; }
  std::span<const float> read(Range range, std::span<float> scratch) const override;

  // The places of the chunk `range`, which holds `x`, that are kept; and their values as the scheme below gets them: 0
  // for exceptions.
  void list_places(Range range, std::span<const float> x, std::vector<uint32_t>& places) const;
  void gather(std::span<const float> x, std::span<const uint32_t> places, std::span<float> out) const;

  bool any_exceptions() const { return any_; }

  // While it lives, the thread that made it reads `part` from `values` instead of finding it again.
  class Found {
   public:
    Found(const KeptTensor& tensor, Range part, std::span<const float> values);
    ~Found();
    Found(const Found&) = delete;
    Found& operator=(const Found&) = delete;

   private:
    friend class KeptTensor;
    const KeptTensor& tensor_;
    Range part_;
    std::span<const float> values_;
    const Found* before_;
  };

  Range chunk(size_t i) const;  // of the tensor

 private:
  const Tensor& tensor_;
  std::shared_ptr<const Kept> kept_;
  bool any_;
  std::array<uint64_t, 1> shape_;
};

class SparseEncoder final : public Encoder {
 public:
  // `delta`: of the contraction, if one is promised. inputs.inner is prepared on what is kept.
  SparseEncoder(const Tensor& tensor, std::shared_ptr<const Kept> kept, const Extent& extent,
                std::optional<double> delta, const Inputs& inputs);

  const Decoder& decoder() const override { return decoder_; }
  void encode(Range range, Code& code, std::span<float> decoded) const override;
  Promise promise() const override;
  void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const override;

 private:
  // The tensor with what the scheme below is unbiased for in place of what it was given: if that limits values first.
  class Limited final : public Tensor {
   public:
    explicit Limited(const SparseEncoder& encoder) : encoder_(encoder) {}
    uint64_t size() const override { return encoder_.tensor_.size(); }
    std::span<const uint64_t> shape() const override { return encoder_.tensor_.shape(); }
    std::span<const float> read(Range range, std::span<float> scratch) const override;

   private:
    const SparseEncoder& encoder_;
  };

  const Promise& inner_promise() const;
  Promise own_promise() const;
  double energy(bool dropped) const;
  double energy_of_ones() const;  // of 1 less what is kept

  const Tensor& tensor_;
  std::shared_ptr<const Kept> kept_;
  KeptTensor below_;
  float largest_;  // regular magnitude
  std::optional<double> delta_;
  std::unique_ptr<Encoder> inner_;  // null if what is kept is stored exactly
  SparseDecoder decoder_;
  Limited limited_;
  mutable std::once_flag asked_;
  mutable Promise inner_promise_;  // once it was asked for
};

// Counts what is kept of each chunk, of a set that is given; kept.ends is empty before. Throws Error(bad_input) if the
// set is of another number of elements.
void count_given(Kept& kept, const Inputs& inputs);

// What inputs.side marks: as both sides have it.
std::shared_ptr<const Kept> given_of(const Tensor& tensor, const Inputs& inputs);

// The regular values that are not 0.
Selection select_nonzero(const Tensor& tensor, const Inputs& inputs);

// The selection as both sides have it. `kept` as for SparseDecoder::restore.
std::shared_ptr<const Kept> kept_of(const Tensor& tensor, const Selection& selection, Kept kept, const Inputs& inputs);

}  // namespace gradcodec
