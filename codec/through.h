// A decoder that is another one but for a few things: of schemes that change values before or after the scheme behind
// them, and leave its streams, parameters and frames as they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "codec/scheme.h"

namespace gradcodec {

class ThroughDecoder : public Decoder {
 public:
  explicit ThroughDecoder(const Decoder& behind) : behind_(behind) {}  // which outlives it
  explicit ThroughDecoder(std::unique_ptr<Decoder> behind) : owned_(std::move(behind)), behind_(*owned_) {}

  Bytes stored() const override { return behind_.stored(); }
  std::optional<uint64_t> params_size(Range range) const override { return behind_.params_size(range); }
  void take_params(Range range, ByteReader& payload, Code& code) const override {
    behind_.take_params(range, payload, code);
  }
  StreamShapes streams(const Code& code, Range range) const override { return behind_.streams(code, range); }
  const Decoder* inner() const override { return behind_.inner(); }
  const Decoder* remainder() const override { return behind_.remainder(); }
  Range inner_range(const Code& code, Range range) const override { return behind_.inner_range(code, range); }
  std::span<const float> fitted_levels() const override { return behind_.fitted_levels(); }
  std::string describe() const override { return behind_.describe(); }
  void decode(const Code& code, Range range, std::span<float> out) const override { behind_.decode(code, range, out); }
  void contexts(const Code& code, size_t stream, Range range, std::span<uint16_t> out) const override {
    behind_.contexts(code, stream, range, out);
  }
  void scales(const Code& code, size_t stream, Range range, std::span<uint8_t> out) const override {
    behind_.scales(code, stream, range, out);
  }
  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override {
    behind_.laws(code, range, target, laws);
  }
  Before before() const override { return behind_.before(); }
  uint64_t domain(Range range) const override { return behind_.domain(range); }
  void decode_domain(const Code& code, Range range, std::span<float> out) const override {
    behind_.decode_domain(code, range, out);
  }
  void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const override {
    behind_.targets(code, range, x, out);
  }
  void first_laws(const Code& code, Range range, std::span<const float> x, std::span<Law> laws) const override {
    behind_.first_laws(code, range, x, laws);
  }
  bool is_digested() const override { return behind_.is_digested(); }
  bool shares_draws() const override { return behind_.shares_draws(); }

 protected:
  const Decoder& behind() const { return behind_; }

 private:
  std::unique_ptr<Decoder> owned_;
  const Decoder& behind_;
};

}  // namespace gradcodec
