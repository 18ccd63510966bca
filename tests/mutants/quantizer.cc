// SPDX-License-Identifier: Apache-2.0
#include "mutants/quantizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/kernels/rounding.h"
#include "codec/scan.h"
#include "codec/schemes/grid_quantizer.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 2> kParams = {{{.kind = ParamSpec::integer,
                                                .name = "levels",
                                                .help = "number of levels, odd: 2M+1",
                                                .min = 3,
                                                .max = 65535,
                                                .required = true,
                                                .decoder_needs = true},
                                               kBucketParam}};

float restore_half(int32_t q, float, float step) { return static_cast<float>(q) * step; }

// What both sides know.
struct Plan {
  Dither dither;
  Mutation mutation;
  uint32_t max_level;
  uint64_t bucket;  // 0: one step for the tensor
  Inputs inputs;

  // Of the whole tensor, stored.
  float step = 0;
  uint16_t attempt = 0;

  uint64_t run(Range range) const { return bucket == 0 ? std::max<uint64_t>(range.count, 1) : bucket; }

  float stored_step(float honest) const { return mutation.step == nullptr ? honest : mutation.step(honest); }

  float step_at(const Code& code, uint64_t index) const {
    if (bucket == 0) return step;
    float of_bucket;
    std::memcpy(&of_bucket, code.params.data() + index / bucket * sizeof(float), sizeof(float));
    return of_bucket;
  }

  // v of each element of the chunk.
  std::vector<float> draws(Range range) const {
    kernels::Draws stream = inputs.random.draws(Purpose::rounding, inputs.stage, attempt);
    if (mutation.draws) stream = mutation.draws(stream);
    std::vector<uint32_t> words(static_cast<size_t>(range.count));
    const auto coordinate = [&](size_t i) {
      return mutation.coordinate == nullptr ? range.first + i : mutation.coordinate(range.first + i);
    };
    // By runs of consecutive coordinates; one that repeats the last needs no new word.
    for (size_t at = 0; at < words.size();) {
      const uint64_t first = coordinate(at);
      size_t end = at + 1;
      while (end < words.size() && coordinate(end) == first + (end - at)) ++end;
      kernels::philox_words(stream, first, end - at, words.data() + at);
      for (; end < words.size() && coordinate(end) == coordinate(end - 1); ++end) words[end] = words[end - 1];
      at = end;
    }
    std::vector<float> v(words.size());
    for (size_t i = 0; i < v.size(); ++i) {
      v[i] = mutation.draw == nullptr ? kernels::draw_v(words[i]) : mutation.draw(words[i], range.first + i);
    }
    return v;
  }
};

class QuantizerDecoder final : public Decoder {
 public:
  explicit QuantizerDecoder(const Plan& plan) : plan_(plan) {}

  Bytes stored() const override {
    Bytes out;
    if (plan_.bucket == 0) put(out, plan_.step);
    if (plan_.mutation.attempts > 1) put(out, static_cast<uint8_t>(plan_.attempt));
    return out;
  }

  std::optional<uint64_t> params_size(Range range) const override {
    const uint64_t steps = plan_.bucket == 0 ? 0 : (range.count + plan_.bucket - 1) / plan_.bucket;
    return steps * sizeof(float);
  }

  StreamShapes streams(const Code&, Range range) const override { return {{2 * plan_.max_level + 1, range.count}}; }

  std::string describe() const override { return "M " + std::to_string(plan_.max_level); }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    const auto honest = plan_.dither == Dither::half ? restore_half : kernels::restore;
    const auto restore = plan_.mutation.restore == nullptr ? honest : plan_.mutation.restore;
    const std::vector<uint16_t>& symbols = code.streams[0].symbols;
    const std::vector<float> v = plan_.draws(range);
    for (size_t i = 0; i < out.size(); ++i) {
      const float step = plan_.step_at(code, i);
      const int32_t q = int32_t{symbols[i]} - static_cast<int32_t>(plan_.max_level);
      out[i] = step == 0 ? 0 : restore(q, v[i], step);
    }
    put_back(code.exceptions, out);
  }

  void laws(const Code& code, Range, std::span<const float> target, std::span<Law> laws) const override {
    for (size_t i = 0; i < laws.size(); ++i) {
      const auto step = static_cast<double>(plan_.step_at(code, i)), x = static_cast<double>(target[i]);
      if (!(std::fabs(x) <= step * plan_.max_level * (1 + 0x1p-22))) {
        laws[i] = {Law::outside, 0, 0, 0};
      } else if (step == 0) {
        laws[i] = Law::at(0);
      } else {
        laws[i] = plan_.dither == Dither::half ? Law::rounded_to_step(x, step) : Law::dithered(step);
      }
    }
    for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
  }

  const Plan& plan() const { return plan_; }
  void take_attempt(uint16_t attempt) { plan_.attempt = attempt; }

 private:
  Plan plan_;
};

double variance_of(const Law& law) {
  const double width = law.hi - law.lo;
  if (law.kind == Law::uniform) return width * width / 12;
  return law.kind == Law::two ? width * width * law.f * (1 - law.f) : 0;
}

// Entropy of the symbols times their number, bits.
double ideal_bits(const std::vector<uint16_t>& symbols, uint32_t alphabet) {
  std::vector<double> counts(alphabet, 0.0);
  for (const uint16_t symbol : symbols) counts[symbol] += 1;
  double bits = 0;
  for (const double count : counts) {
    if (count > 0) bits -= count * std::log2(count / static_cast<double>(symbols.size()));
  }
  return bits;
}

class QuantizerEncoder final : public Encoder {
 public:
  QuantizerEncoder(const Tensor& tensor, Plan plan) : tensor_(tensor), decoder_(plan) {
    const Extent extent = scan_extent(tensor, plan.inputs);
    honest_step_ = step_for_range(extent.max, plan.max_level);
    plan.step = plan.stored_step(honest_step_);
    decoder_ = QuantizerDecoder(plan);
    if (plan.mutation.kept < 1) find_threshold();
    if (plan.mutation.attempts > 1) decoder_.take_attempt(shortest());
  }

  const Decoder& decoder() const override { return decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    const Plan& plan = decoder_.plan();
    const std::vector<float> x = begin(range, code);
    const std::vector<float> v = plan.draws(range);
    const auto honest = 2 * plan.max_level + 1 <= 255 ? kernels::round_float32 : kernels::round_float64;
    const auto round = plan.mutation.round == nullptr ? honest : plan.mutation.round;
    code.streams.resize(1);
    code.streams[0].alphabet = 2 * plan.max_level + 1;
    code.streams[0].symbols.resize(x.size());
    const auto max_level = static_cast<float>(plan.max_level);
    for (size_t i = 0; i < x.size(); ++i) {
      const float step = encoder_step(code, x, i);
      const float value = std::fabs(x[i]) < threshold_ ? 0.0F : x[i];
      const int32_t q = step == 0 ? 0 : round(value, v[i], step, max_level);
      code.streams[0].symbols[i] = static_cast<uint16_t>(q + static_cast<int32_t>(plan.max_level));
    }
    if (decoded.empty()) return;
    decoder_.decode(code, range, decoded);
    if (plan.mutation.misreports) decoded.back() = std::nextafter(decoded.back(), 2 * decoded.back() + 1);
  }

  // omega = min(n / (4 M^2), sqrt(n) / M) for n values that share a step: the sum of step^2 f (1 - f) is at most n
  // step^2 / 4, and at most step sum |x| <= step sqrt(n) ||x||, while step = max|x| / M <= ||x|| / M. (Lemma 3.1 of
  // arXiv 1610.02132, the max norm in place of the Euclidean one.) Subtractive: n / (12 M^2).
  Promise promise() const override {
    const Plan& plan = decoder_.plan();
    Promise promise;
    promise.unbiased = promise.independent = true;
    promise.variance = 0;
    promise.max_error = 0;
    const auto n = static_cast<double>(plan.bucket == 0 ? tensor_.size() : std::min(plan.bucket, tensor_.size()));
    const auto levels = static_cast<double>(plan.max_level);
    const double bound = plan.dither == Dither::half ? std::min(n / (4 * levels * levels), std::sqrt(n) / levels)
                                                     : n / (12 * levels * levels);
    promise.omega = bound * (1 + 0x1p-21);
    const uint64_t len = plan.inputs.chunk_len;
    for (uint64_t first = 0; first < tensor_.size(); first += len) {
      add_chunk({first, std::min(len, tensor_.size() - first)}, promise);
    }
    if (plan.mutation.omega) {
      promise.variance.reset();
      promise.omega = plan.mutation.omega;
    }
    if (promise.omega && *promise.omega < 1) promise.delta = 1 - *promise.omega;
    return promise;
  }

 private:
  // The chunk's values, exceptions replaced by 0, and what is stored beside its symbols.
  std::vector<float> begin(Range range, Code& code) const {
    const Plan& plan = decoder_.plan();
    std::vector<float> x(static_cast<size_t>(range.count));
    const std::span<const float> values = tensor_.read(range, x);
    if (values.data() != x.data()) std::copy(values.begin(), values.end(), x.begin());
    code.params.clear();
    code.exceptions.clear();
    set_aside(x, std::numeric_limits<double>::infinity(), 0, code.exceptions);
    for (size_t at = 0; plan.bucket != 0 && at < x.size(); at += static_cast<size_t>(plan.bucket)) {
      put(code.params, plan.stored_step(bucket_step(x, at)));
    }
    return x;
  }

  float bucket_step(std::span<const float> x, size_t at) const {
    const Plan& plan = decoder_.plan();
    const size_t first = at - at % static_cast<size_t>(plan.bucket);
    const size_t count = std::min(static_cast<size_t>(plan.bucket), x.size() - first);
    return step_for_range(extent_of(x.subspan(first, count)).max, plan.max_level);
  }

  float encoder_step(const Code& code, std::span<const float> x, size_t at) const {
    const Plan& plan = decoder_.plan();
    if (plan.mutation.rounds_to_stored_step) return plan.step_at(code, at);
    return plan.bucket == 0 ? honest_step_ : bucket_step(x, at);
  }

  void find_threshold() {
    std::vector<float> x(static_cast<size_t>(tensor_.size()));
    const std::span<const float> values = tensor_.read({0, tensor_.size()}, x);
    std::transform(values.begin(), values.end(), x.begin(), [](float value) { return std::fabs(value); });
    const auto kept = static_cast<ptrdiff_t>(std::ceil(decoder_.plan().mutation.kept * static_cast<double>(x.size())));
    if (kept == 0) return;
    std::nth_element(x.begin(), x.end() - kept, x.end());
    threshold_ = *(x.end() - kept);
  }

  // The attempt whose symbols have the least entropy.
  uint16_t shortest() {
    uint16_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (uint16_t attempt = 0; attempt < decoder_.plan().mutation.attempts; ++attempt) {
      decoder_.take_attempt(attempt);
      double bits = 0;
      for_each_chunk(tensor_, decoder_.plan().inputs.chunk_len, [&](Range range, std::span<const float>) {
        Code code;
        encode(range, code, {});
        bits += ideal_bits(code.streams[0].symbols, code.streams[0].alphabet);
      });
      if (bits < least) {
        least = bits;
        best = attempt;
      }
    }
    return best;
  }

  void add_chunk(Range range, Promise& promise) const {
    const Plan& plan = decoder_.plan();
    Code code;
    const std::vector<float> x = begin(range, code);
    std::vector<Law> laws(x.size());
    decoder_.laws(code, range, x, laws);
    for (size_t i = 0; i < x.size(); ++i) {
      *promise.variance += variance_of(laws[i]);
      const auto step = static_cast<double>(plan.step_at(code, i));
      promise.max_error = std::max(*promise.max_error, plan.dither == Dither::half ? step : step / 2);
      if (step <= 0x1p-126 && step > 0) promise.omega.reset();  // raised: the bound's step is not max|x| / M
    }
  }

  const Tensor& tensor_;
  QuantizerDecoder decoder_;
  float honest_step_ = 0;
  float threshold_ = 0;  // magnitudes below it are coded as 0
};

Plan plan_of(Dither dither, const Mutation& mutation, const Params& params, const Inputs& inputs) {
  return {dither, mutation, static_cast<uint32_t>(integer_of(params, "levels") / 2),
          static_cast<uint64_t>(integer_of(params, "bucket")), inputs};
}

}  // namespace

Quantizer::Quantizer(std::string_view name, Dither dither, const Mutation& mutation)
    : name_(name), dither_(dither), mutation_(mutation) {}

std::span<const ParamSpec> Quantizer::params() const { return kParams; }

void Quantizer::check(const Params& params, bool) const {
  if (integer_of(params, "levels") % 2 == 0) throw Error(Exit::usage, "'levels' must be odd");
}

std::unique_ptr<Encoder> Quantizer::prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const {
  return std::make_unique<QuantizerEncoder>(tensor, plan_of(dither_, mutation_, params, inputs));
}

std::unique_ptr<Decoder> Quantizer::restore(const Params& params, ByteReader& stored, const Inputs& inputs) const {
  Plan plan = plan_of(dither_, mutation_, params, inputs);
  if (plan.bucket == 0) plan.step = stored.get<float>();
  if (mutation_.attempts > 1) plan.attempt = stored.get<uint8_t>();
  return std::make_unique<QuantizerDecoder>(plan);
}

Params quantizer_params(int64_t levels, int64_t bucket) { return {{"levels", levels}, {"bucket", bucket}}; }

}  // namespace gradcodec
