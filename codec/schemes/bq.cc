// The mechanism of Agarwal, Suresh, Yu, Kumar, McMahan, "cpSGD", NeurIPS 2018, arXiv 1805.10559, section 4, with the
// clipping of Yan, Li, Wu, Song, "Killing two birds with one stone: quantization achieves privacy in distributed
// learning" (BQ-SGD), arXiv 2304.13545.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/bq.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "codec/binomial.h"
#include "codec/scan.h"
#include "codec/schemes/grid_quantizer.h"
#include "codec/secret.h"

namespace gradcodec {
namespace {

constexpr std::array<ParamSpec, 4> kParams = {{
    {.kind = ParamSpec::real,
     .name = "clip",
     .help = "first limit values to [-clip, clip] (then biased); must not depend on the values",
     .min = 1e-30,
     .max = 1e30,
     .required = true,
     .example = "0.01"},
    {.kind = ParamSpec::integer,
     .name = "bits",
     .help = "2^bits - 1 intervals between -clip and clip",
     .min = 1,
     .max = 15,
     .required = true,
     .decoder_needs = true,
     .example = "4"},
    {.kind = ParamSpec::integer,
     .name = "m",
     .help = "noise: the number of ones among m random bits; with the intervals at most 65,535",
     .min = 1,
     .max = 65534,
     .required = true,
     .decoder_needs = true,
     .example = "2000"},
    {.kind = ParamSpec::choice,
     .name = "noise",
     .help = "secret: from the operating system; test: from --seed, for tests of decoders, NOT PRIVATE",
     .choices = "secret|test",
     .fallback = "secret",
     .decoder_needs = true},
}};

// Of steps that prepare makes.
constexpr float kLeastStep = 0x1p-114F, kLargestStep = 0x1p101F;

// What both sides know.
struct Layout {
  uint32_t intervals = 0, trials = 0;  // s, m
  bool secret = true;
  float step = 0;

  uint32_t top() const { return intervals + trials; }  // the largest symbol
  // Of the levels: they lie at -half, -half + step, .., half. Exact.
  double half() const { return static_cast<double>(step) * intervals / 2; }
};

Layout layout_of(const Params& params) {
  Layout layout;
  layout.intervals = (1U << integer_of(params, "bits")) - 1;
  layout.trials = static_cast<uint32_t>(integer_of(params, "m"));
  layout.secret = choice_of(params, "noise") == "secret";
  return layout;
}

float clip_of(const Params& params) { return static_cast<float>(real_of(params, "clip")); }

Layout encoding_layout(const Params& params) {
  Layout layout = layout_of(params);
  layout.step = step_for_range(2 * clip_of(params), layout.intervals);
  return layout;
}

// Where a value lies between the levels, counted from the far end on its own side of 0: `below` whole steps, and `rest`
// of one.
struct Place {
  double below, rest;
};

Place place_of(float x, const Layout& layout) {
  const double step = layout.step, distance = layout.half() + std::fabs(static_cast<double>(x));
  const double below = std::min(std::floor(distance / step), static_cast<double>(layout.intervals));
  return {below, distance - below * step};
}

// The values of a tensor, limited to [-clip, clip]; there is no NaN among them.
class Limited final : public Tensor {
 public:
  Limited(const Tensor& tensor, float clip) : tensor_(tensor), clip_(clip) {}
  uint64_t size() const override { return tensor_.size(); }
  std::span<const uint64_t> shape() const override { return tensor_.shape(); }
  std::span<const float> read(Range range, std::span<float> scratch) const override {
    const std::span<const float> x = tensor_.read(range, scratch);
    std::transform(x.begin(), x.end(), scratch.begin(),
                   [this](float value) { return std::clamp(value, -clip_, clip_); });
    return scratch.first(x.size());
  }

 private:
  const Tensor& tensor_;
  float clip_;
};

// Three words an element: for rounding, then the first 64 digits of U.
class Draws {
 public:
  static constexpr size_t kMost = 1024;  // elements at once

  virtual ~Draws() { wipe(words_); }
  virtual void draw(uint64_t first, size_t count) = 0;
  virtual uint32_t more(uint64_t index, uint32_t number) = 0;  // the digits of U behind those

  uint32_t rounding(size_t i) const { return words_[i]; }
  uint64_t digits(size_t i) const { return uint64_t{words_[kMost + i]} << 32 | words_[2 * kMost + i]; }

 protected:
  std::array<uint32_t, 3 * kMost> words_ = {};
};

class SecretDraws final : public Draws {
 public:
  void draw(uint64_t, size_t count) override {
    for (size_t part = 0; part < 3; ++part) source_.fill(std::span(words_).subspan(part * kMost, count));
  }
  uint32_t more(uint64_t, uint32_t) override {
    uint32_t word = 0;
    source_.fill({&word, 1});
    return word;
  }

 private:
  SecretWords source_;
};

// Anyone can make these again: not private.
class TestDraws final : public Draws {
 public:
  TestDraws(const Random& random, uint8_t stage) : random_(random), stage_(stage) {}
  void draw(uint64_t first, size_t count) override {
    for (size_t part = 0; part < 3; ++part) words(part, first, count, words_.data() + part * kMost);
  }
  uint32_t more(uint64_t index, uint32_t number) override {
    uint32_t word = 0;
    words(3 + number, index, 1, &word);
    return word;
  }

 private:
  void words(size_t sub, uint64_t first, size_t count, uint32_t* out) const {
    kernels::philox_words(random_.draws(Purpose::rounding, stage_, static_cast<uint16_t>(sub)), first, count, out);
  }

  const Random& random_;
  uint8_t stage_;
};

// Where workers share a stage with others, what these leave out or move tells of the values.
void check_stage(const Inputs& inputs, Exit code) {
  if (inputs.stage != kFirstStage) {
    throw Error(code, "bq stands alone: what a scheme above it stores would not be private");
  }
}

class BinomialDecoder final : public Decoder {
 public:
  explicit BinomialDecoder(const Layout& layout) : layout_(layout) {}

  Bytes stored() const override {
    Bytes out;
    put(out, layout_.step);
    return out;
  }

  std::optional<uint64_t> params_size(Range) const override { return 0; }
  StreamShapes streams(const Code&, Range range) const override { return {{layout_.top() + 1, range.count}}; }

  std::string describe() const override {
    std::array<char, 32> step;
    const auto end = std::to_chars(step.data(), step.data() + step.size(), layout_.step).ptr;
    return "step " + std::string(step.data(), end) + (layout_.secret ? ", secret noise" : ", NOT PRIVATE: test noise");
  }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    if (!code.exceptions.empty()) throw Error(Exit::bad_input, "lists exceptions, which bq has none of");
    const float half_step = layout_.step / 2;
    const auto top = static_cast<int32_t>(layout_.top());
    const std::vector<uint16_t>& symbols = code.streams[0].symbols;
    for (size_t i = 0; i < range.count; ++i) {
      out[i] = half_step * static_cast<float>(2 * static_cast<int32_t>(symbols[i]) - top);
    }
  }

  void laws(const Code&, Range range, std::span<const float> target, std::span<Law> laws) const override {
    const auto step = static_cast<double>(layout_.step);
    for (size_t i = 0; i < range.count; ++i) {
      const auto x = static_cast<double>(target[i]);
      // Of the two levels around it; of the last two for the last.
      const double below = std::min(std::floor((x + layout_.half()) / step), layout_.intervals - 1.0);
      const double low = below * step - layout_.half();
      laws[i] = Law::with_noise(x, low, low + step, layout_.trials);
      if (!(std::fabs(x) <= layout_.half())) laws[i].kind = Law::outside;
    }
  }

  // Of a value among the levels: rounding, and m fair bits.
  double variance(float x) const {
    const auto step = static_cast<double>(layout_.step);
    const double f = place_of(x, layout_).rest / step;
    return step * step * (f * (1 - f) + layout_.trials / 4.0);
  }

  const Layout& layout() const { return layout_; }

 private:
  Layout layout_;
};

class BinomialEncoder final : public Encoder {
 public:
  BinomialEncoder(const Tensor& tensor, const Layout& layout, float clip, const Inputs& inputs)
      : limited_(tensor, clip),
        decoder_(layout),
        random_(inputs.random),
        stage_(inputs.stage),
        chunks_(tensor.size(), inputs),
        table_(BinomialTable::of(layout.trials)) {}

  const Decoder& decoder() const override { return decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    const auto len = static_cast<size_t>(range.count);
    code.params.clear();
    code.exceptions.clear();
    code.streams.resize(1);
    code.streams[0].alphabet = decoder_.layout().top() + 1;
    code.streams[0].symbols.resize(len);
    code.scratch.resize(std::max(code.scratch.size(), len));
    const std::span<const float> x = limited_.read(range, std::span(code.scratch).first(len));
    const std::unique_ptr<Draws> draws = make_draws();
    for (size_t at = 0; at < len; at += Draws::kMost) {
      const size_t count = std::min(Draws::kMost, len - at);
      draws->draw(range.first + at, count);
      for (size_t i = 0; i < count; ++i) {
        const uint32_t level = rounded(x[at + i], draws->rounding(i));
        uint32_t number = 0;
        const auto more = [&] { return draws->more(range.first + at + i, number++); };
        code.streams[0].symbols[at + i] = static_cast<uint16_t>(level + table_->sample(draws->digits(i), more));
      }
    }
    if (!decoded.empty()) decoder_.decode(code, range, decoded);
  }

  Promise promise() const override {
    Promise promise;
    promise.unbiased = promise.independent = true;
    promise.target = &limited_;
    promise.variance = 0;
    std::vector<float> scratch;
    for (uint64_t chunk = 0; chunk < chunks_.count(); ++chunk) {
      const Range range = chunks_[chunk];
      scratch.resize(static_cast<size_t>(range.count));
      for (const float x : limited_.read(range, scratch)) *promise.variance += decoder_.variance(x);
    }
    const Layout& layout = decoder_.layout();
    promise.max_error = static_cast<double>(layout.step) * (layout.trials / 2.0 + 1);
    return promise;
  }

 private:
  std::unique_ptr<Draws> make_draws() const {
    if (decoder_.layout().secret) return std::make_unique<SecretDraws>();
    return std::make_unique<TestDraws>(random_, stage_);
  }

  // The number of the level that x is rounded to. As the rounding primitive: right to 2^-24 of a step, the same for x
  // and -x, and a level stays what it is.
  uint32_t rounded(float x, uint32_t word) const {
    const Layout& layout = decoder_.layout();
    const double v = (static_cast<double>(word >> 9) + 0.5) * 0x1p-23;
    const Place place = place_of(x, layout);
    const bool up = place.rest > (x >= 0 ? 1 - v : v) * static_cast<double>(layout.step);
    const uint32_t from_far = std::min(static_cast<uint32_t>(place.below) + (up ? 1 : 0), layout.intervals);
    return x >= 0 ? from_far : layout.intervals - from_far;
  }

  Limited limited_;
  BinomialDecoder decoder_;
  Random random_;
  uint8_t stage_;
  Chunks chunks_;
  std::shared_ptr<const BinomialTable> table_;
};

class Bq final : public Scheme {
 public:
  std::string_view name() const override { return "bq"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "binomial noise on clipped, rounded values, for privacy"; }
  std::string_view promises() const override {
    return "unbiased for the clipped values; variance step^2 (f (1 - f) + m / 4), step = 2 clip / (2^bits - 1);\n"
           "the released integers are differentially private, by an epsilon that compress computes and prints;\n"
           "sizes and parameters follow from no value";
  }
  std::string_view source() const override { return "Agarwal et al., arXiv 1805.10559; Yan et al., arXiv 2304.13545"; }

  // Not the message's: they cannot be made again, and a decoder needs none.
  bool draws() const override { return false; }
  bool is_private() const override { return true; }

  Release release(const Params& params) const override {
    const Layout layout = encoding_layout(params);
    return {layout.intervals, layout.trials, layout.step, layout.secret};
  }

  Params rehearsed(const Params& params) const override {
    Params out = params;
    out["noise"] = std::string("test");
    return out;
  }

  void check(const Params& params, bool) const override {
    const Layout layout = layout_of(params);
    if (layout.top() > 65535) {
      throw Error(Exit::usage, "2^bits - 1 and m are " + std::to_string(layout.top()) +
                                   " together, and a released integer is at most 65535");
    }
  }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    check_stage(inputs, Exit::usage);
    Inputs strict = inputs;
    strict.nonfinite = Nonfinite::error;  // an exception would be released as it is
    scan_extent(tensor, strict);
    return std::make_unique<BinomialEncoder>(tensor, encoding_layout(params), clip_of(params), inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    check_stage(inputs, Exit::bad_input);
    Layout layout = layout_of(params);
    layout.step = stored.get<float>();
    if (!(layout.step >= kLeastStep && layout.step <= kLargestStep)) {
      stored.fail("holds a step that is not from 2^-114 to 2^101");
    }
    return std::make_unique<BinomialDecoder>(layout);
  }
};

}  // namespace

const Scheme& bq_scheme() {
  static const Bq scheme;
  return scheme;
}

}  // namespace gradcodec
