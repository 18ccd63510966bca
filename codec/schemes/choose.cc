// A dithered quantizer for each tensor, picked by its exact variance and its expected cost: whether the dither is
// subtracted, and whether the tensor, a row or 512 elements share a step.
//
// The cost is that of a pilot: a sample of the tensor, coded by rans-dither with draws that no message has. The
// message's own draws have no part in the choice, for the shortest of several encodings would be biased; nor has the
// coder that it will be sent by.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/choose.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "codec/coders/rans.h"
#include "codec/functions.h"
#include "codec/schemes/grid_quantizer.h"

namespace gradcodec {
namespace {

constexpr double kMinNmse = 1e-8, kMaxNmse = 1e4;
constexpr uint64_t kBucket = 512;

constexpr std::array<ParamSpec, 2> kParams = {{
    {.kind = ParamSpec::real,
     .name = "nmse",
     .help = "expected squared error over squared norm, at most: the fewest bits for it",
     .min = kMinNmse,
     .max = kMaxNmse,
     .example = "0.1"},
    {.kind = ParamSpec::real,
     .name = "bits",
     .help = "bits a value of symbols and steps, about, instead of nmse: the least error for them",
     .min = 0.01,
     .max = 16,
     .example = "1.5"},
}};

// Runs of values, spread over the tensor; all of them if there are few. Irregular ones are 0.
class Sample final : public Tensor {
 public:
  static constexpr uint64_t kValues = uint64_t{1} << 16;
  static constexpr uint64_t kRun = 2048;  // a run has this many at least

  // Runs start where buckets of `unit` values do, and hold whole ones.
  Sample(const Tensor& tensor, uint64_t chunk_len, uint64_t unit) {
    const uint64_t n = tensor.size();
    const bool whole = n <= kValues;
    const uint64_t len = whole ? n : (kRun + unit - 1) / unit * unit;
    const uint64_t runs = whole ? 1 : std::max<uint64_t>(2, kValues / len);
    std::vector<float> scratch(static_cast<size_t>(len));
    values_.reserve(static_cast<size_t>(runs * len));
    for (uint64_t i = 0; i < runs; ++i) {
      uint64_t first = whole ? 0 : i * ((n - len) / (runs - 1));
      first -= first % chunk_len % unit;
      for (const float x : tensor.read({first, len}, scratch)) {
        const bool regular = (std::bit_cast<uint32_t>(x) & 0x7FFFFFFF) <= kernels::kMaxRegularBits;
        values_.push_back(regular ? x : 0);
      }
    }
    shape_[0] = values_.size();
    squares = squares_of(values_);
  }

  uint64_t size() const override { return values_.size(); }
  std::span<const uint64_t> shape() const override { return shape_; }
  std::span<const float> read(Range range, std::span<float>) const override {
    return std::span(values_).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
  }
  std::span<const float> values() const { return values_; }

  double squares = 0;

 private:
  std::vector<float> values_;
  std::array<uint64_t, 1> shape_ = {};
};

// Bits a value of a pilot: the sample, encoded with draws of its own.
class Pilot {
 public:
  explicit Pilot(const Sample& sample) : sample_(sample), inputs_{Random({}, 0), kPilotStage, sample.size()} {}

  double bits_a_value(GridLayout layout, const StepRule& rule) {
    const Reach reach = reach_of(sample_, inputs_, layout, rule);
    layout.max_level = reach.max_level;
    const GridEncoder encoder(sample_, layout, inputs_, {.exceptions = reach.exceeded, .rule = rule});
    const Range all = {0, sample_.size()};
    encoder.encode(all, code_, {});
    Stream& stream = code_.streams[0];
    stream.classes = kernels::kDitherClasses;
    stream.contexts.resize(stream.symbols.size());
    encoder.decoder().contexts(code_, 0, all, stream.contexts);
    bytes_.clear();
    rans_dither_coder().shrink(stream, bytes_);
    const size_t bytes = bytes_.size() + code_.params.size() + 8 * code_.exceptions.size();
    return 8 * static_cast<double>(bytes) / static_cast<double>(sample_.size());
  }

 private:
  static constexpr uint8_t kPilotStage = 255;  // no composition is that deep: the message never draws these numbers

  const Sample& sample_;
  Inputs inputs_;
  Code code_;
  Bytes bytes_;
};

// Of stochastic rounding to multiples of step: the sum of step^2 f (1 - f). What cannot be quantized has no error.
double rounding_variance(std::span<const float> x, float step) {
  kernels::Sums sums;
  const auto width = static_cast<double>(step);
  for (size_t i = 0; i < x.size(); ++i) {
    const double y = static_cast<double>(x[i]) / width;
    const double f = y - std::floor(y);
    sums.partial[i % 16] += std::fabs(y) <= kMaxLevel && fits(std::bit_cast<uint32_t>(x[i]), 0x1p126) ? f * (1 - f) : 0;
  }
  return sums.total() * width * width;
}

// One pass.
double rounding_variance(const Tensor& tensor, const Inputs& inputs, float step) {
  double variance = 0;
  scan_chunks(
      tensor, inputs, [&](Range, std::span<const float> x) { return rounding_variance(x, step); },
      [&](double part) { variance += part; });
  return variance;
}

// One way to quantize the tensor, and how it does.
struct Candidate {
  uint64_t bucket = 0;
  Rounding rounding = Rounding::subtractive;
  float step = 0;   // if bucket is 0
  double nmse = 0;  // expected squared error over squared norm
  double bits = 0;  // expected, a value

  GridLayout layout() const {
    return {.bucket = bucket, .stores_layout = true, .stores_level = true, .step = step, .rounding = rounding};
  }

  StepRule rule() const {
    if (bucket == 0) return {};
    return [target = nmse](std::span<const float> x) { return step_for_nmse(squares_of(x), x.size(), target); };
  }
};

class Chooser {
 public:
  Chooser(const Tensor& tensor, const Inputs& inputs, const Energy& energy)
      : tensor_(tensor),
        inputs_(inputs),
        energy_(energy),
        row_(row_of(tensor)),
        sample_(tensor, inputs.chunk_len, row_ == 0 ? kBucket : row_),
        pilot_(sample_) {}

  // The fewest bits for an error of `nmse`.
  Candidate for_nmse(double nmse) {
    Candidate best = dithered(0, nmse);
    for (const uint64_t bucket : buckets()) {
      const Candidate other = dithered(bucket, nmse);
      if (other.bits < best.bits) best = other;
    }
    // Of a sample first: the exact variance takes passes of its own.
    double allowed = nmse;
    for (int pass = 0; pass < kPasses; ++pass) {
      Candidate half = rounded(largest_step(nmse, allowed));
      if (!(half.bits < best.bits)) break;
      half.nmse = exact_nmse(half.step);
      if (half.nmse <= nmse) return half;
      allowed *= 0.998 * nmse / half.nmse;
    }
    return best;
  }

  // The least error for `bits` a value. Bits are those of the sample.
  Candidate for_bits(double bits) {
    const Candidate whole = finest(0, bits);
    Candidate best = whole;
    for (const uint64_t bucket : buckets()) {
      const Candidate other = finest(bucket, bits);
      if (other.nmse < best.nmse) best = other;
    }
    Candidate half = whole;  // the same symbols, and so the same bits
    half.rounding = Rounding::half;
    half.nmse = exact_nmse(half.step);
    return half.nmse < best.nmse ? half : best;
  }

 private:
  static constexpr int kPasses = 4;

  // Elements a row, if rows may have steps of their own.
  static uint64_t row_of(const Tensor& tensor) {
    const uint64_t row = tensor.shape().empty() ? 0 : tensor.shape().back();
    return row > 1 && row <= Sample::kValues / 2 && row < tensor.size() ? row : 0;
  }

  std::vector<uint64_t> buckets() const {
    std::vector<uint64_t> out;
    if (tensor_.size() > kBucket) out.push_back(kBucket);
    if (row_ != 0 && row_ != kBucket) out.push_back(row_);
    return out;
  }

  Candidate dithered(uint64_t bucket, double nmse) {
    Candidate out = {.bucket = bucket, .nmse = nmse};
    if (bucket == 0) out.step = step_for_nmse(energy_.squares, tensor_.size(), nmse);
    return with_bits(out);
  }

  Candidate rounded(float step) { return with_bits({.rounding = Rounding::half, .step = step}); }

  Candidate with_bits(Candidate candidate) {
    candidate.bits = pilot_.bits_a_value(candidate.layout(), candidate.rule());
    return candidate;
  }

  // Of errors a 64th of an octave apart, the least that takes no more than `bits`; if all take more, the largest.
  Candidate finest(uint64_t bucket, double bits) {
    constexpr int kLeast = -1700, kMost = 850;  // 2^(k / 64) within kMinNmse and kMaxNmse
    int low = kLeast, high = kMost;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (dithered(bucket, nmse_of(middle)).bits <= bits) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return dithered(bucket, nmse_of(high));
  }

  static double nmse_of(int k) { return functions::power(2, k / 64.0); }

  double exact_nmse(float step) const { return rounding_variance(tensor_, inputs_, step) / energy_.squares; }

  // The largest step, but for a millionth, under which rounding has an error of `allowed` on the sample; by bisection,
  // from the step that has no more than `nmse` on any tensor of this norm.
  float largest_step(double nmse, double allowed) const {
    const std::span<const float> x = sample_.values();
    const double squares = allowed * sample_.squares;
    double low = 2 * std::sqrt(nmse * energy_.squares / static_cast<double>(tensor_.size()));  // error n step^2 / 4
    if (squares == 0) return clamp_step(low);
    double high = 2 * low;
    while (high < 0x1p126 && rounding_variance(x, clamp_step(high)) <= squares) {
      low = high;
      high *= 2;
    }
    for (int i = 0; i < 20; ++i) {
      const double middle = (low + high) / 2;
      (rounding_variance(x, clamp_step(middle)) <= squares ? low : high) = middle;
    }
    return clamp_step(low);
  }

  const Tensor& tensor_;
  const Inputs& inputs_;
  const Energy& energy_;
  uint64_t row_;
  Sample sample_;
  Pilot pilot_;
};

class Choose final : public Scheme {
 public:
  std::string_view name() const override { return "choose"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "for each tensor the dithered quantizer that is best for it"; }
  std::string_view promises() const override {
    return "unbiased: picked by exact variance and expected cost, never by what was drawn;\n"
           "with nmse: E||x'-x||^2 = nmse ||x||^2 for each tensor, or less;\n"
           "with bits: symbols and steps take about that many bits a value of each tensor, by a sample of its values\n"
           "(real gradients came out from 5 % less to 6 % more)";
  }
  std::string_view source() const override { return "the quantizers are those of dither and grid"; }

  bool draws() const override { return true; }

  void check(const Params& params, bool encoding) const override {
    if (encoding && (params.count("nmse") != 0) == (params.count("bits") != 0)) {
      throw Error(Exit::usage, "give either 'nmse' or 'bits'");
    }
  }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const Energy energy = scan_energy(tensor, inputs);
    Candidate chosen;
    if (energy.squares > 0) {
      Chooser chooser(tensor, inputs, energy);
      chosen = params.count("nmse") != 0 ? chooser.for_nmse(inputs.nmse_for(real_of(params, "nmse"), energy.squares))
                                         : chooser.for_bits(real_of(params, "bits"));
    }
    GridLayout layout = chosen.layout();
    GridChoice choice;
    choice.rule = chosen.rule();
    Reach reach{level_for(energy.extent.max, layout.step), false};
    if (layout.bucket != 0 || reach.max_level == kMaxLevel) reach = reach_of(tensor, inputs, layout, choice.rule);
    layout.max_level = reach.max_level;
    choice.exceptions = energy.extent.irregular > 0 || reach.exceeded;
    choice.omega = chosen.nmse * (1 + 0x1p-22);  // steps are rounded to float32, sums to float64
    return std::make_unique<GridEncoder>(tensor, layout, inputs, std::move(choice));
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return GridDecoder::restore(Candidate().layout(), stored, inputs);
  }
};

}  // namespace

const Scheme& choose_scheme() {
  static const Choose scheme;
  return scheme;
}

}  // namespace gradcodec
