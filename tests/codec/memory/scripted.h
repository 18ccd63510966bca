// A scheme that decodes to what a function says, so that memories can be tested with the papers' own uniform numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "codec/scheme.h"

namespace gradcodec {

// What x decodes to; called once a chunk, in order.
using Script = std::function<std::vector<float>(std::span<const float> x)>;

class ScriptedScheme final : public Scheme {
 public:
  explicit ScriptedScheme(Script script, double omega = 0) : script_(std::move(script)), omega_(omega) {}
  std::string_view name() const override { return "scripted"; }
  std::span<const ParamSpec> params() const override { return {}; }
  std::string_view summary() const override { return ""; }
  std::string_view promises() const override { return ""; }
  std::string_view source() const override { return ""; }
  bool draws() const override { return false; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params&, const Inputs&) const override {
    return std::make_unique<ScriptedEncoder>(*this, tensor);
  }
  std::unique_ptr<Decoder> restore(const Params&, ByteReader&, const Inputs&) const override {
    return std::make_unique<ScriptedDecoder>();
  }

 private:
  // The values themselves are the code.
  class ScriptedDecoder final : public Decoder {
   public:
    Bytes stored() const override { return {}; }
    std::optional<uint64_t> params_size(Range) const override { return std::nullopt; }
    StreamShapes streams(const Code&, Range) const override { return {}; }
    std::string describe() const override { return ""; }
    void decode(const Code& code, Range, std::span<float> out) const override {
      ByteReader in(code.params, "values");
      for (float& value : out) value = in.get<float>();
    }
    void laws(const Code&, Range, std::span<const float>, std::span<Law> laws) const override {
      std::fill(laws.begin(), laws.end(), Law());
    }
  };

  class ScriptedEncoder final : public Encoder {
   public:
    ScriptedEncoder(const ScriptedScheme& scheme, const Tensor& tensor) : scheme_(scheme), tensor_(tensor) {}
    const Decoder& decoder() const override { return decoder_; }
    void encode(Range range, Code& code, std::span<float> decoded) const override {
      std::vector<float> room(range.count);
      const std::vector<float> sent = scheme_.script_(tensor_.read(range, room));
      code.params.clear();
      for (const float value : sent) put(code.params, value);
      if (!decoded.empty()) std::copy(sent.begin(), sent.end(), decoded.begin());
    }
    Promise promise() const override {
      Promise promise;
      promise.unbiased = true;
      promise.omega = scheme_.omega_;
      return promise;
    }

   private:
    const ScriptedScheme& scheme_;
    const Tensor& tensor_;
    ScriptedDecoder decoder_;
  };

  Script script_;
  double omega_;
};

}  // namespace gradcodec
