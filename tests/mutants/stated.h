// A scheme whose decoded values, laws and promise are whatever a test states: what it decodes to is carried as bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "codec/scheme.h"

namespace gradcodec {

// Of one message of a tensor, whole.
struct StatedMessage {
  std::vector<float> decoded;  // where laws are stated: of a transform, in its domain
  std::vector<float> targets;  // of the last of two stages; empty: x, or its transform
};

// Chunks are all of the tensor that there is, or of whole blocks of a transform.
struct Statement {
  std::function<StatedMessage(std::span<const float> x, const Random& random)> message;
  std::function<void(std::span<const float> target, std::span<Law> laws)> laws;
  std::function<Promise(std::span<const float> x)> promise;

  Decoder::Before before = Decoder::Before::nothing;
  std::function<void(std::span<const float> x, std::span<Law> laws)> first_laws = {};  // of a draw
  size_t block = 1;                                                                    // of a transform, padded by 0
  std::function<void(std::span<float> block)> there = {}, back = {};
};

// Takes no parameters, and any tensor of one chunk.
class Stated final : public Scheme {
 public:
  explicit Stated(Statement statement) : statement_(std::move(statement)) {}
  std::string_view name() const override { return "stated"; }
  std::span<const ParamSpec> params() const override { return {}; }
  std::string_view summary() const override { return "for tests: whatever is stated"; }
  std::string_view promises() const override { return "what is stated"; }
  std::string_view source() const override { return "none"; }
  bool draws() const override { return true; }
  void check(const Params&, bool) const override {}
  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override;
  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override;

 private:
  Statement statement_;
};

}  // namespace gradcodec
