// Q / (1 + omega) for an unbiased Q: no longer unbiased, but a contraction whatever omega is, E ||C(x) - x||^2 <= (1 -
// 1 / (1 + omega)) ||x||^2, as error feedback needs it (Basu, Data, Karakus, Diggavi, "Qsparse-local-SGD", NeurIPS
// 2019, arXiv 1906.02367, lemma 2; Beznosikov et al., arXiv 2002.12410).
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/shrink.h"

#include <algorithm>

#include "codec/number_text.h"
#include "codec/scan.h"
#include "codec/through.h"

namespace gradcodec {
namespace {

constexpr float kLeast = 0x1p-64F;

// Exceptions of the scheme behind stay what they are.
void shrink_values(float factor, const Code& code, std::span<float> values) {
  for (float& value : values) value *= factor;
  put_back(code.exceptions, values);
}

// Of factor * (x + e) - x, e having the law `of`.
Law shrunk(const Law& of, double factor, double x) {
  if (of.kind != Law::point && of.kind != Law::two && of.kind != Law::uniform && of.kind != Law::subset) return {};
  const double less = (factor - 1) * x;
  return {of.kind, factor * of.lo + less, factor * of.hi + less, of.f, of.count};
}

class ShrinkDecoder final : public ThroughDecoder {
 public:
  ShrinkDecoder(const Decoder& behind, float factor) : ThroughDecoder(behind), factor_(factor) {}
  ShrinkDecoder(std::unique_ptr<Decoder> behind, float factor) : ThroughDecoder(std::move(behind)), factor_(factor) {}

  Bytes stored() const override {
    Bytes out;
    put(out, factor_);
    put_bytes(out, behind().stored());
    return out;
  }
  std::string describe() const override {
    return "times " + number_text(static_cast<double>(factor_), 4) + ", " + behind().describe();
  }
  void decode(const Code& code, Range range, std::span<float> out) const override {
    behind().decode(code, range, out);
    shrink_values(factor_, code, out);
  }
  void decode_domain(const Code& code, Range range, std::span<float> out) const override {
    if (before() == Before::nothing) return decode(code, range, out);
    behind().decode_domain(code, range, out);
    for (float& value : out) value *= factor_;
  }
  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override {
    behind().laws(code, range, target, laws);
    for (size_t i = 0; i < laws.size(); ++i) {
      laws[i] = shrunk(laws[i], static_cast<double>(factor_), static_cast<double>(target[i]));
    }
    for (const Exception& exception : code.exceptions) {
      if (before() == Before::nothing) laws[static_cast<size_t>(exception.index)] = Law::at(0);
    }
  }

 private:
  float factor_;
};

class ShrinkEncoder final : public Encoder {
 public:
  ShrinkEncoder(const Tensor& tensor, const Inputs& inputs)
      : behind_(inputs.inner->prepare(tensor, inputs.behind())), promise_(behind_->promise()) {
    if (!promise_.unbiased) throw Error(Exit::usage, "'shrink' stands over unbiased schemes; the one behind it is not");
    // Without an omega the error is bounded in itself, whatever the values are, and need not shrink with them.
    if (promise_.omega) factor_ = std::max(kLeast, static_cast<float>(1 / (1 + *promise_.omega)));
    decoder_ = std::make_unique<ShrinkDecoder>(behind_->decoder(), factor_);
  }

  const Decoder& decoder() const override { return *decoder_; }
  void encode(Range range, Code& code, std::span<float> decoded) const override {
    behind_->encode(range, code, decoded);
    if (!decoded.empty()) shrink_values(factor_, code, decoded);
  }
  void targets(const Code& code, Range range, std::span<const float> x, std::span<float> out) const override {
    behind_->targets(code, range, x, out);
  }

  Promise promise() const override {
    if (!promise_.omega) return promise_;
    Promise promise;
    promise.target = promise_.target;
    promise.independent = promise_.independent;
    const auto c = static_cast<double>(factor_);
    const double left = (1 - c) * (1 - c) + c * c * *promise_.omega;
    if (left < 1) promise.delta = (1 - left) * (1 - 0x1p-40);
    return promise;
  }

 private:
  std::unique_ptr<Encoder> behind_;
  Promise promise_;
  float factor_ = 1;
  std::unique_ptr<ShrinkDecoder> decoder_;
};

class Shrink final : public Scheme {
 public:
  std::string_view name() const override { return "shrink"; }
  std::span<const ParamSpec> params() const override { return {}; }
  std::string_view summary() const override { return "an unbiased scheme over 1 + omega, which error feedback needs"; }
  std::string_view promises() const override {
    return "a contraction: E ||C(x) - x||^2 <= (1 - 1 / (1 + omega)) ||x||^2, whatever omega is; no longer unbiased";
  }
  std::string_view source() const override { return "Basu et al., NeurIPS 2019 (arXiv 1906.02367), lemma 2"; }
  bool draws() const override { return false; }
  Inner inner() const override { return Inner::required; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params&, const Inputs& inputs) const override {
    return std::make_unique<ShrinkEncoder>(tensor, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    const auto factor = stored.get<float>();
    if (!(factor >= kLeast && factor <= 1)) stored.fail("holds a factor that is not from 2^-64 to 1");
    return std::make_unique<ShrinkDecoder>(inputs.inner->restore(stored, inputs.behind()), factor);
  }
};

}  // namespace

const Scheme& shrink_scheme() {
  static const Shrink scheme;
  return scheme;
}

}  // namespace gradcodec
