// Tensors in memory and a message's round trip, for tests of schemes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "codec/registry.h"
#include "codec/scheme.h"

namespace gradcodec {

class VectorTensor final : public Tensor {
 public:
  explicit VectorTensor(std::vector<float> values) : values_(std::move(values)), shape_{values_.size()} {}
  VectorTensor(std::vector<float> values, uint64_t row)
      : values_(std::move(values)), shape_{values_.size() / row, row} {}
  uint64_t size() const override { return values_.size(); }
  std::span<const uint64_t> shape() const override { return shape_; }
  std::span<const float> read(Range range, std::span<float>) const override {
    return std::span(values_).subspan(range.first, range.count);
  }
  const std::vector<float>& values() const { return values_; }

 private:
  std::vector<float> values_;
  std::vector<uint64_t> shape_;
};

struct RoundTrip {
  Bytes stored;
  std::vector<Code> chunks;
  std::vector<float> decoded;   // by the decoder, from what is stored
  std::vector<float> promised;  // by the encoder, beside its symbols
};

inline std::vector<Range> chunks_of(uint64_t size, uint64_t chunk_len) {
  std::vector<Range> out;
  for (uint64_t at = 0; at < size; at += chunk_len) out.push_back({at, std::min(chunk_len, size - at)});
  return out;
}

// `coding` has the encoder's parameters, `restoring` those that the decoder gets. Side information is the tensor
// itself.
inline RoundTrip round_trip(const Tensor& tensor, const SchemeChoice& coding, const SchemeChoice& restoring,
                            const MessageId& id, uint64_t chunk_len, Nonfinite nonfinite, uint32_t ordinal) {
  const Random random(id, ordinal);
  Inputs inputs{random, kFirstStage, chunk_len, nonfinite};
  inputs.size = tensor.size();
  inputs.rows = rows_of(tensor.shape());
  if (coding.takes_side()) inputs.side = &tensor;
  const auto encoder = coding.prepare(tensor, inputs);
  RoundTrip out;
  out.stored = encoder->decoder().stored();
  ByteReader stored(out.stored, "stored");
  const auto decoder = restoring.restore(stored, inputs);
  stored.expect_end();
  for (const Range range : chunks_of(tensor.size(), chunk_len)) {
    std::vector<float> promised(range.count), decoded(range.count);
    Code code;
    encoder->encode(range, code, promised);
    decoder->decode(code, range, decoded);
    out.chunks.push_back(std::move(code));
    out.promised.insert(out.promised.end(), promised.begin(), promised.end());
    out.decoded.insert(out.decoded.end(), decoded.begin(), decoded.end());
  }
  return out;
}

inline RoundTrip round_trip(const Tensor& tensor, std::string_view scheme, const MessageId& id,
                            uint64_t chunk_len = 4096, Nonfinite nonfinite = Nonfinite::error, uint32_t ordinal = 0) {
  const SchemeChoice choice = parse_scheme(scheme);
  const SchemeChoice restoring = parse_stored_scheme(choice.stored_text());
  return round_trip(tensor, choice, restoring, id, chunk_len, nonfinite, ordinal);
}

// Of a tensor of one chunk: its code and decoded values, and what is declared of it.
struct OneChunk {
  Code code;
  std::vector<float> decoded;
  std::vector<Law> laws;
  Promise promise;  // its target is gone
};

inline OneChunk one_chunk(const Tensor& tensor, std::string_view scheme,
                          const Inputs& inputs = {Random({1, {}, {}}, 0), kFirstStage, 4096}) {
  const auto encoder = parse_scheme(scheme).prepare(tensor, inputs);
  const auto size = static_cast<size_t>(tensor.size());
  OneChunk out;
  out.decoded.resize(size);
  out.laws.resize(size);
  encoder->encode({0, size}, out.code, out.decoded);
  out.promise = encoder->promise();
  std::vector<float> scratch(size);
  const Tensor& target = out.promise.target == nullptr ? tensor : *out.promise.target;
  encoder->decoder().laws(out.code, {0, size}, target.read({0, size}, scratch), out.laws);
  out.promise.target = nullptr;
  return out;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float p, float q) { return std::bit_cast<uint32_t>(p) == std::bit_cast<uint32_t>(q); });
}

}  // namespace gradcodec
