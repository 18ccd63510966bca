// Integers that messages with one step add up to (Vineeth S., arXiv 2109.12497, where an all-reduce adds them), float64
// sums of values at the same places, or sums of the tables of sketches (Ivkin et al., arXiv 1903.04488). Widened, so
// that no sum overflows, or refused; exact for integers, so that sums of sums are those of all, in any order.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "codec/number_text.h"
#include "codec/schemes/grid_quantizer.h"
#include "codec/sketch.h"
#include "codec/summable.h"
#include "codec/through.h"

namespace gradcodec {
namespace {

constexpr size_t kMostScales = 8;
constexpr uint32_t kHighest = 256;  // values of one byte

constexpr std::array<ParamSpec, 1> kParams = {{
    {.kind = ParamSpec::choice,
     .name = "of",
     .help = "what was added up: integers, values that are kept exactly, or the tables of the sketches behind",
     .choices = "symbols|values|tables",
     .fallback = "symbols",
     .decoder_needs = true},
}};

// Weight and factor, which all sums have.
Summands take_head(Summands::Kind kind, ByteReader& stored) {
  Summands summands{.kind = kind};
  summands.weight = stored.get_varint();
  if (summands.weight == 0 || summands.weight > kMaxSummed) stored.fail("says a sum of no or too many messages");
  summands.factor = stored.get<double>();
  if (summands.factor != 1 && summands.factor != 1 / static_cast<double>(summands.weight)) {
    stored.fail("holds a factor that is neither 1 nor that of a mean");
  }
  return summands;
}

std::string head_text(const Summands& summands) {
  return (summands.factor == 1 ? "sum of " : "mean of ") + std::to_string(summands.weight) +
         (summands.weight == 1 ? " message" : " messages");
}

void refuse_exceptions(const Code& code) {
  if (!code.exceptions.empty()) throw Error(Exit::bad_input, "a sum has exceptions, which do not add up");
}

// What the sketch behind says of the sum, times the factor.
class TableSumDecoder final : public ThroughDecoder, public Summable {
 public:
  TableSumDecoder(const Summands& summands, std::unique_ptr<Decoder> sketch)
      : ThroughDecoder(std::move(sketch)), summands_(summands) {}

  Bytes stored() const override {
    Bytes out = stored_sum(summands_);
    put_bytes(out, behind().stored());
    return out;
  }
  std::string describe() const override { return head_text(summands_) + ", " + behind().describe(); }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    refuse_exceptions(code);
    behind().decode(code, range, out);
    if (summands_.factor == 1) return;
    for (float& value : out) value = static_cast<float>(static_cast<double>(value) * summands_.factor);
  }

  const Summable* summable() const override { return behind().summable() == nullptr ? nullptr : this; }
  Summands summands() const override { return summands_; }
  const Table& table() const override { return behind().summable()->table(); }
  std::unique_ptr<Decoder> without_table() const override {
    return std::make_unique<TableSumDecoder>(summands_, behind().summable()->without_table());
  }

 private:
  const Summands summands_;
};

class SumDecoder final : public Decoder, public Summable {
 public:
  SumDecoder(Summands summands) : summands_(std::move(summands)) {}

  static std::unique_ptr<Decoder> restore(Summands::Kind kind, ByteReader& stored, const Inputs& inputs) {
    Summands summands = take_head(kind, stored);
    if (kind == Summands::symbols) take_scales(stored, summands, inputs.stage);
    return std::make_unique<SumDecoder>(std::move(summands));
  }

  Bytes stored() const override { return stored_sum(summands_); }
  std::optional<uint64_t> params_size(Range) const override { return 0; }

  StreamShapes streams(const Code&, Range range) const override {
    if (summands_.kind == Summands::values) {
      return {{kHighest, range.count}, {kHighest, range.count}, {0, kSumPlanes * range.count}};
    }
    StreamShapes shapes = {};
    for (size_t i = 0; i < summands_.steps.size(); ++i) shapes.add({2 * summands_.max_level + 1, range.count});
    return shapes;
  }

  std::string describe() const override {
    std::string text = head_text(summands_);
    if (summands_.kind == Summands::values) return text;
    const auto step = [&](float value) { return number_text(static_cast<double>(value), 4); };
    text += summands_.steps.size() == 1
                ? ", step " + step(summands_.steps[0])
                : ", steps " + step(summands_.steps.front()) + " to " + step(summands_.steps.back());
    return text + ", M " + std::to_string(summands_.max_level);
  }

  void decode(const Code& code, Range, std::span<float> out) const override {
    refuse_exceptions(code);
    if (summands_.kind == Summands::values) return decode_values(code, out);
    check_zeros(code);
    if (summands_.steps.size() == 1) return decode_one(code.streams[0].symbols, out);
    const auto zero = static_cast<int32_t>(summands_.max_level);
    for (size_t i = 0; i < out.size(); ++i) {
      double sum = 0;
      for (size_t scale = 0; scale < summands_.steps.size(); ++scale) {
        const auto q = static_cast<double>(int32_t{code.streams[scale].symbols[i]} - zero);
        sum += q * static_cast<double>(summands_.steps[scale]);
      }
      out[i] = decoded(sum, i);
    }
  }

  // The messages' errors, added up: of no law that is declared here.
  void laws(const Code&, Range, std::span<const float>, std::span<Law> laws) const override {
    std::fill(laws.begin(), laws.end(), Law());
  }

  const Summable* summable() const override { return this; }
  Summands summands() const override { return summands_; }

  void add_symbols(const Code& code, int32_t weight, std::span<int32_t> sums) const override {
    const auto zero = static_cast<int32_t>(summands_.max_level);
    int32_t* sum = sums.data();
    for (const Stream& stream : code.streams) {
      for (const uint16_t symbol : stream.symbols) *sum++ += weight * (int32_t{symbol} - zero);
    }
  }

  void add_values(const Code& code, double weight, std::span<double> sums) const override {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * value(code, i);
  }

 private:
  static void take_scales(ByteReader& stored, Summands& summands, uint8_t stage) {
    const uint64_t level = stored.get_varint();
    if (level > kMaxSum) stored.fail("says M = " + std::to_string(level) + ", more than 32767");
    summands.max_level = static_cast<uint32_t>(level);
    const auto scales = stored.get<uint8_t>();
    if (scales == 0 || scales > kMostScales) stored.fail("says " + std::to_string(scales) + " scales, not 1 to 8");
    for (unsigned i = 0; i < scales; ++i) {
      const auto step = stored.get<float>();
      if (!is_step(step)) stored.fail("holds a step that is not 0 or from 2^-126 to 2^126");
      const float before = i == 0 ? 0 : summands.steps.back();
      if (i > 0 && step > before) stored.fail("holds steps that rise");
      if (i > 0 && step == before && step > 0x1p-126F) stored.fail("holds a step twice");
      summands.steps.push_back(step);
    }
    if ((summands.steps.front() == 0) != (summands.steps.back() == 0)) stored.fail("holds a step of 0 beside others");
    if (!holds_sums(summands, stage > kFirstStage)) stored.fail("holds steps whose sums float32 does not hold");
  }

  void check_zeros(const Code& code) const {
    if (summands_.steps.front() != 0) return;
    for (const Stream& stream : code.streams) {
      for (const uint16_t symbol : stream.symbols) {
        if (symbol != summands_.max_level) throw Error(Exit::bad_input, "a sum is not 0 where the step is 0");
      }
    }
  }

  float decoded(double sum, size_t index) const {
    const double value = sum * summands_.factor;
    if (holds_sum(value)) return static_cast<float>(value);
    throw Error(Exit::bad_input,
                "the sum of element " + std::to_string(index) + " of the chunk is more than float32 holds");
  }

  // take_scales has seen that float32 holds all of them. The first product is exact: 16 bits times 24.
  void decode_one(const std::vector<uint16_t>& symbols, std::span<float> out) const {
    const auto zero = static_cast<int32_t>(summands_.max_level);
    const auto step = static_cast<double>(summands_.steps[0]);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto q = static_cast<double>(int32_t{symbols[i]} - zero);
      out[i] = static_cast<float>(q * step * summands_.factor);
    }
  }

  static double value(const Code& code, size_t i) {
    const std::vector<uint16_t>&highest = code.streams[0].symbols, &next = code.streams[1].symbols;
    uint64_t bits = uint64_t{highest[i]} << 56 | uint64_t{next[i]} << 48;
    const std::byte* const planes = code.streams[2].bytes.data();
    for (size_t plane = 0; plane < kSumPlanes; ++plane) {
      bits |= std::to_integer<uint64_t>(planes[plane * highest.size() + i]) << 8 * plane;
    }
    return std::bit_cast<double>(bits);
  }

  void decode_values(const Code& code, std::span<float> out) const {
    for (size_t i = 0; i < out.size(); ++i) {
      const double sum = value(code, i);
      if (sum == 0 && std::signbit(sum)) throw Error(Exit::bad_input, "a sum is -0, which no sum is");
      out[i] = decoded(sum, i);
    }
  }

  Summands summands_;
};

class Sum final : public Scheme {
 public:
  std::string_view name() const override { return kSumScheme; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "what aggregate makes of messages that add up undecoded"; }
  std::string_view promises() const override { return "the sum, or the mean, of what the messages' symbols stand for"; }
  std::string_view source() const override { return "Vineeth S., arXiv 2109.12497, for the sums of integers"; }

  bool draws() const override { return false; }
  Inner inner() const override { return Inner::optional; }
  bool adds_up(const Params&) const override { return true; }
  unsigned work_per_value(const Params&) const override { return 4 * kMostScales; }

  void check(const Params&, bool encoding) const override {
    if (encoding) throw Error(Exit::usage, "it is what gradcodec aggregate makes of messages, and codes no dump");
  }

  std::unique_ptr<Encoder> prepare(const Tensor&, const Params&, const Inputs&) const override {
    throw Error(Exit::bug, "a sum is made of messages");
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    const std::string_view of = choice_of(params, "of");
    const bool sketched = inputs.inner != nullptr && inputs.inner->scheme->name() == kSketchScheme;
    if ((of == "tables") != (inputs.inner != nullptr) || (of == "tables") != sketched) {
      stored.fail("is a sum of tables where there are no sketches, or of something else where there are");
    }
    if (!sketched) return SumDecoder::restore(of == "values" ? Summands::values : Summands::symbols, stored, inputs);
    if (inputs.stage != kFirstStage) stored.fail("is a sum of tables below another scheme");
    const Summands head = take_head(Summands::tables, stored);
    return std::make_unique<TableSumDecoder>(head, inputs.inner->restore(stored, inputs.behind()));
  }
};

}  // namespace

const Scheme& sum_scheme() {
  static const Sum scheme;
  return scheme;
}

}  // namespace gradcodec
