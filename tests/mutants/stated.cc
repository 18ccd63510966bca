// SPDX-License-Identifier: Apache-2.0
#include "mutants/stated.h"

#include <algorithm>
#include <cstring>

namespace gradcodec {
namespace {

class StatedDecoder final : public Decoder {
 public:
  explicit StatedDecoder(const Statement& statement) : statement_(statement) {}

  Bytes stored() const override { return {}; }
  std::optional<uint64_t> params_size(Range) const override { return 0; }
  StreamShapes streams(const Code&, Range range) const override { return {{0, domain(range) * sizeof(float)}}; }
  std::string describe() const override { return "as stated"; }
  Before before() const override { return statement_.before; }
  uint64_t domain(Range range) const override {
    return (range.count + statement_.block - 1) / statement_.block * statement_.block;
  }

  void decode_domain(const Code& code, Range, std::span<float> out) const override {
    std::memcpy(out.data(), code.streams[0].bytes.data(), out.size_bytes());
  }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    std::vector<float> values(static_cast<size_t>(domain(range)));
    decode_domain(code, range, values);
    if (before() == Before::transform) for_blocks(values, statement_.back);
    std::copy_n(values.begin(), out.size(), out.begin());
  }

  void targets(const Code&, Range, std::span<const float> x, std::span<float> out) const override {
    std::fill(std::copy(x.begin(), x.end(), out.begin()), out.end(), 0.0F);
    for_blocks(out, statement_.there);
  }

  void laws(const Code&, Range, std::span<const float> target, std::span<Law> laws) const override {
    statement_.laws(target, laws);
  }

  void first_laws(const Code&, Range, std::span<const float> x, std::span<Law> laws) const override {
    statement_.first_laws(x, laws);
  }

 private:
  void for_blocks(std::span<float> values, const std::function<void(std::span<float>)>& turn) const {
    for (size_t at = 0; at < values.size(); at += statement_.block) turn(values.subspan(at, statement_.block));
  }

  const Statement& statement_;
};

class StatedEncoder final : public Encoder {
 public:
  StatedEncoder(const Statement& statement, const Tensor& tensor, const Inputs& inputs)
      : statement_(statement), decoder_(statement), x_(static_cast<size_t>(tensor.size())) {
    const std::span<const float> values = tensor.read({0, x_.size()}, x_);
    if (values.data() != x_.data()) std::copy(values.begin(), values.end(), x_.begin());
    message_ = statement_.message(x_, inputs.random);
  }

  const Decoder& decoder() const override { return decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    const Bytes bytes = bytes_of(message_.decoded);
    code.params.clear();
    code.exceptions.clear();
    code.streams.resize(1);
    code.streams[0].alphabet = 0;
    code.streams[0].symbols.clear();
    code.streams[0].bytes = bytes;
    if (!decoded.empty()) decoder_.decode(code, range, decoded);
  }

  void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const override {
    if (message_.targets.empty()) return decoder_.targets(code, range, x, out);
    std::copy(message_.targets.begin(), message_.targets.end(), out.begin());
  }

  Promise promise() const override { return statement_.promise(x_); }

 private:
  static Bytes bytes_of(std::span<const float> values) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }

  const Statement& statement_;
  StatedDecoder decoder_;
  std::vector<float> x_;
  StatedMessage message_;
};

}  // namespace

std::unique_ptr<Encoder> Stated::prepare(const Tensor& tensor, const Params&, const Inputs& inputs) const {
  return std::make_unique<StatedEncoder>(statement_, tensor, inputs);
}

std::unique_ptr<Decoder> Stated::restore(const Params&, ByteReader&, const Inputs&) const {
  return std::make_unique<StatedDecoder>(statement_);
}

}  // namespace gradcodec
