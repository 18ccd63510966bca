// Horvath, Ho, Horvath, Sahu, Canini, Richtarik, "Natural compression for distributed deep learning", arXiv 1905.10988:
// x becomes one of the two powers of two about it, at random, so that its mean is kept. All in integers: with a = 2^e
// <= |x| < 2a and |x| = a + m a / 2^23, up to 2a for m of the 2^23 draws.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/natural.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "codec/scan.h"

namespace gradcodec {
namespace {

// Of what regular values are rounded to: 2^126, the largest of them, is a power of two and stays.
constexpr int kLowest = -149, kHighest = 126;

// 2^e, exact.
double power_of_two(int e) { return std::ldexp(1.0, e); }

// |x| = 2^exponent (1 + part / 2^23), of a value that is not 0.
struct Split {
  int exponent;
  uint32_t part;
};

Split split(uint32_t magnitude) {
  const uint32_t field = magnitude >> 23, low = magnitude & 0x7FFFFF;
  if (field != 0) return {static_cast<int>(field) - 127, low};
  const int top = std::bit_width(low) - 1;  // a subnormal has no implicit 1
  return {top + kLowest, (low - (uint32_t{1} << top)) << (23 - top)};
}

// Exponents that symbols may stand for: symbol `zero()` is 0, zero() +- k is +-2^(lowest + k - 1).
struct Exponents {
  int lowest = 0;
  uint32_t count = 0;  // 0: all values are 0

  uint32_t zero() const { return count; }
  uint32_t alphabet() const { return 2 * count + 1; }
};

class NaturalDecoder final : public Decoder {
 public:
  NaturalDecoder(Exponents exponents, const Inputs& inputs)
      : exponents_(exponents), draws_(inputs.random.draws(Purpose::rounding, inputs.stage)) {
    levels_.resize(exponents.alphabet());
    for (uint32_t k = 1; k <= exponents.count; ++k) {
      const auto level = static_cast<float>(power_of_two(exponents.lowest + static_cast<int>(k) - 1));
      levels_[exponents.zero() + k] = level;
      levels_[exponents.zero() - k] = -level;
    }
  }

  static std::unique_ptr<Decoder> restore(ByteReader& stored, const Inputs& inputs) {
    const uint64_t count = stored.get_varint();
    Exponents exponents;
    if (count > 0) {
      const uint64_t lowest = stored.get_varint();  // counted from the smallest there is
      if (lowest > kHighest - kLowest || count > kHighest - kLowest + 1 - lowest) {
        stored.fail("says exponents beyond those of float32");
      }
      exponents = {static_cast<int>(lowest) + kLowest, static_cast<uint32_t>(count)};
    }
    return std::make_unique<NaturalDecoder>(exponents, inputs);
  }

  Bytes stored() const override {
    Bytes out;
    put_varint(out, exponents_.count);
    if (exponents_.count > 0) put_varint(out, static_cast<uint64_t>(exponents_.lowest - kLowest));
    return out;
  }

  std::optional<uint64_t> params_size(Range) const override { return 0; }

  StreamShapes streams(const Code&, Range range) const override {
    return {{exponents_.alphabet(), range.count, kernels::kDitherClasses}};
  }

  std::string describe() const override {
    if (exponents_.count == 0) return "zeros";
    const int top = exponents_.lowest + static_cast<int>(exponents_.count) - 1;
    return "2^" + std::to_string(exponents_.lowest) + " to 2^" + std::to_string(top);
  }

  void contexts(const Code&, size_t, Range range, std::span<uint16_t> out) const override {
    kernels::dither_contexts(draws_, range.first, out.size(), out.data());
  }

  void decode(const Code& code, Range, std::span<float> out) const override {
    const std::vector<uint16_t>& symbols = code.streams[0].symbols;
    kernels::levels_decode(symbols.data(), symbols.size(), levels_.data(), out.data());
    for (const Exception& exception : code.exceptions) {
      require_needed(exception, symbols[static_cast<size_t>(exception.index)] == exponents_.zero());
    }
    put_back(code.exceptions, out);
  }

  void laws(const Code& code, Range, std::span<const float> target, std::span<Law> laws) const override {
    std::transform(target.begin(), target.end(), laws.begin(), law_of);
    for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
  }

  static Law law_of(float value) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7FFFFFFF;
    if (magnitude == 0 || magnitude > kernels::kMaxRegularBits) return Law::at(0);
    const double a = power_of_two(split(magnitude).exponent), x = static_cast<double>(value);
    return value > 0 ? Law::rounded(x, a, 2 * a) : Law::rounded(x, -2 * a, -a);
  }

  const Exponents& exponents() const { return exponents_; }
  const kernels::Draws& draws() const { return draws_; }
  const std::vector<float>& levels() const { return levels_; }

 private:
  Exponents exponents_;
  kernels::Draws draws_;
  std::vector<float> levels_;  // of each symbol
};

class NaturalEncoder final : public Encoder {
 public:
  NaturalEncoder(const Tensor& tensor, Exponents exponents, bool has_exceptions, const Inputs& inputs)
      : tensor_(tensor), decoder_(exponents, inputs), has_exceptions_(has_exceptions), chunks_(tensor.size(), inputs) {}

  const Decoder& decoder() const override { return decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    constexpr size_t kBlock = 1024;
    const auto len = static_cast<size_t>(range.count);
    code.params.clear();
    code.exceptions.clear();
    code.streams.resize(1);
    code.streams[0].alphabet = decoder_.exponents().alphabet();
    std::vector<uint16_t>& symbols = code.streams[0].symbols;
    symbols.resize(len);
    const std::span<const float> x = read(range, code);
    std::array<uint32_t, kBlock> words;
    for (size_t at = 0; at < len; at += kBlock) {
      const size_t count = std::min(kBlock, len - at);
      kernels::philox_words(decoder_.draws(), range.first + at, count, words.data());
      for (size_t i = 0; i < count; ++i) symbols[at + i] = symbol_of(std::bit_cast<uint32_t>(x[at + i]), words[i]);
    }
    if (decoded.empty()) return;
    kernels::levels_decode(symbols.data(), len, decoder_.levels().data(), decoded.data());
    put_back(code.exceptions, decoded);
  }

  Promise promise() const override {
    Promise promise;
    promise.unbiased = promise.independent = true;
    promise.omega = 1.0 / 8;
    promise.delta = 7.0 / 8;
    double variance = 0;
    for (uint64_t i = 0; i < chunks_.count(); ++i) {
      Code code;
      for (const float value : read(chunks_[i], code)) {
        const Law law = NaturalDecoder::law_of(value);
        if (law.kind == Law::two) variance += law.variance_of_two();
      }
    }
    promise.variance = variance;
    return promise;
  }

 private:
  // Up iff part / 2^23 > 1 - v, or > v below zero, with v = (t + 1/2) / 2^23: integers beside halves.
  uint16_t symbol_of(uint32_t bits, uint32_t word) const {
    const uint32_t magnitude = bits & 0x7FFFFFFF, zero = decoder_.exponents().zero();
    if (magnitude == 0) return static_cast<uint16_t>(zero);
    const bool negative = bits >> 31 != 0;
    const Split value = split(magnitude);
    const uint32_t t = word >> 9, threshold = negative ? t : (uint32_t{1} << 23) - 1 - t;
    const uint32_t up = value.part > threshold ? 1 : 0;
    const uint32_t k = static_cast<uint32_t>(value.exponent - decoder_.exponents().lowest) + 1 + up;
    return static_cast<uint16_t>(negative ? zero - k : zero + k);
  }

  std::span<const float> read(Range range, Code& code) const {
    return read_regular(tensor_, range, has_exceptions_, code);
  }

  const Tensor& tensor_;
  NaturalDecoder decoder_;
  bool has_exceptions_;
  Chunks chunks_;
};

// Smallest magnitude but 0, as bits; all ones if there is none.
uint32_t smallest_of(std::span<const float> x) {
  uint32_t smallest = UINT32_MAX;
  for (const float value : x) smallest = std::min(smallest, (std::bit_cast<uint32_t>(value) & 0x7FFFFFFF) - 1);
  return smallest;  // less 1, so that 0 is the largest
}

class Natural final : public Scheme {
 public:
  std::string_view name() const override { return "natural"; }
  std::span<const ParamSpec> params() const override { return {}; }
  std::string_view summary() const override { return "stochastic rounding to powers of two"; }
  std::string_view promises() const override {
    return "unbiased; variance (|x| - a)(2a - |x|) an element exactly, a the power of two at or below |x|;\n"
           "at most ||x||^2 / 8";
  }
  std::string_view source() const override { return "Horvath et al., arXiv 1905.10988"; }

  bool draws() const override { return true; }

  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params&, const Inputs& inputs) const override {
    const Extent extent = scan_extent(tensor, inputs);
    Exponents exponents;
    if (extent.max > 0) {
      uint32_t smallest = UINT32_MAX;
      scan_chunks(
          tensor, inputs, [](Range, std::span<const float> x) { return smallest_of(x); },
          [&](uint32_t chunk) { smallest = std::min(smallest, chunk); });
      const Split top = split(std::bit_cast<uint32_t>(extent.max));
      exponents.lowest = split(smallest + 1).exponent;
      exponents.count = static_cast<uint32_t>(top.exponent - exponents.lowest) + (top.part > 0 ? 2 : 1);
    }
    return std::make_unique<NaturalEncoder>(tensor, exponents, extent.irregular > 0, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return NaturalDecoder::restore(stored, inputs);
  }
};

}  // namespace

const Scheme& natural_scheme() {
  static const Natural scheme;
  return scheme;
}

}  // namespace gradcodec
