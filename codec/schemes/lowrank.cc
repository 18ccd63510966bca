// A tensor as a matrix of few components, x'_ij = sum over k of u_ik v_kj / s_k: the projection on the span of a
// randomised power iteration (Halko, Martinsson and Tropp, SIAM Review 53, 2011; PowerSGD, Vogels, Karimireddy and
// Jaggi, NeurIPS 2019, arXiv 1905.13727, sends such factors as they are). Both factors, scaled to the length s_k, are
// quantized by dither of one step, which gives every coordinate the same part in the error, and stand among the
// tensor's parameters. Biased: in lowrank+dither the second scheme corrects it.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/lowrank.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "codec/coders/model.h"
#include "codec/coders/rans.h"
#include "codec/functions.h"
#include "codec/lowrank/factorization.h"
#include "codec/model/line_scales.h"
#include "codec/model/rows.h"
#include "codec/number_text.h"
#include "codec/room.h"
#include "codec/scan.h"
#include "codec/schemes/grid_quantizer.h"
#include "codec/schemes/regular.h"

namespace gradcodec {
namespace {

constexpr uint64_t kMaxRank = 128;
constexpr uint64_t kMostCoordinates = uint64_t{1} << 24;  // of both factors
constexpr uint64_t kWorth = 4;                            // LineScales: of coordinates
constexpr double kBeta = 0.75;                            // of the factors' step over that of what codes the rest
constexpr double kLeastSquares = 0x1p-100, kMostSquares = 0x1p100;
constexpr float kLeastStep = 0x1p-80F, kMostStep = 0x1p80F;
constexpr float kLeastWeight = 0x1p-64F, kMostWeight = 0x1p90F;
constexpr float kMostWeighted = 0x1p16F;  // of a weighted coordinate; so no product overflows
constexpr double kWeakest = 0x1p-8;       // components, in steps: weaker ones say nothing
constexpr double kLn2 = 0.693147180559945309417;

constexpr std::array<ParamSpec, 2> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "rank",
     .help = "components, at most: those that are expected to take more bits than they save are left out",
     .min = 1,
     .max = static_cast<double>(kMaxRank),
     .required = true,
     .example = "8"},
    {.kind = ParamSpec::real,
     .name = "nmse",
     .help = "how fine the factors are: as for a scheme of that nmse [that of the scheme behind '+', else 0.1]",
     .min = 1e-8,
     .max = 1e4},
}};

// The factors side by side, component by component: of each the rows' coordinates, then the columns'.
class Coordinates final : public Tensor {
 public:
  Coordinates(std::vector<float> values, uint64_t rank)
      : values_(std::move(values)), shape_{rank, values_.size() / rank} {}
  uint64_t size() const override { return values_.size(); }
  std::span<const uint64_t> shape() const override { return shape_; }
  std::span<const float> read(Range range, std::span<float>) const override {
    return std::span(values_).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
  }

 private:
  std::vector<float> values_;
  std::array<uint64_t, 2> shape_;
};

// What is stored of a tensor; no weights if nothing is predicted.
struct Factors {
  MatrixView view;
  std::vector<float> weights;  // 1 / s_k
  kernels::Lattice lattice = {0, 0};
  std::vector<uint16_t> symbols;
  std::optional<LineScales> scales;  // for coders that take them

  uint64_t rank() const { return weights.size(); }
  uint64_t count() const { return rank() * (view.rows + view.cols); }
};

// Of the coordinates as a tensor of `rank` rows.
Inputs coordinate_inputs(const Inputs& inputs, const Factors& factors) {
  Inputs out{inputs.random, inputs.stage, std::max<uint64_t>(1, factors.count())};
  out.size = factors.count();
  out.rows = factors.rank();
  return out;
}

kernels::Draws draws_of(const Inputs& inputs) { return inputs.random.draws(Purpose::rounding, inputs.stage); }

const Coder& coder_of(const Factors& factors) { return factors.scales ? model_coder() : rans_dither_coder(); }

// Alphabet and contexts, no symbols.
Stream stream_of(const Factors& factors, const kernels::Draws& draws) {
  Stream stream;
  const auto count = static_cast<size_t>(factors.count());
  stream.alphabet = 2 * factors.lattice.max_level + 1;
  stream.classes = kernels::kDitherClasses;
  stream.contexts.resize(count);
  kernels::dither_contexts(draws, 0, count, stream.contexts.data());
  if (!factors.scales) return stream;
  stream.scales.resize(count);
  std::array<uint8_t, LineScales::kSums> of_sum;
  for (uint32_t sum = 0; sum < LineScales::kSums; ++sum) {
    of_sum[sum] = scale_class_of(factors.scales->base() - 8 * static_cast<int32_t>(sum));
  }
  factors.scales->fill<uint8_t>({0, count}, of_sum, kZeroScale, stream.scales);
  return stream;
}

// What is predicted, from the stored factors. float32: product by product, component after component.
class Prediction {
 public:
  Prediction(const Factors& factors, std::span<const float> coordinates)
      : view_(factors.view), rank_(factors.rank()), of_row_(rank_ * view_.rows), of_col_(rank_ * view_.cols) {
    const size_t both = static_cast<size_t>(view_.rows + view_.cols);
    for (size_t k = 0; k < rank_; ++k) {
      const float* const from = coordinates.data() + k * both;
      for (size_t i = 0; i < view_.rows; ++i) of_row_[i * rank_ + k] = factors.weights[k] * from[i];
      std::copy(from + view_.rows, from + both, of_col_.begin() + static_cast<ptrdiff_t>(k * view_.cols));
    }
  }

  float largest_weighted() const {
    float largest = 0;
    for (const float value : of_row_) largest = std::max(largest, std::fabs(value));
    return largest;
  }

  void predict(Range range, std::span<float> out) const {
    if (rank_ == 0) return std::fill(out.begin(), out.end(), 0.0F);
    const uint64_t len = view_.cols * view_.fold;
    for (uint64_t done = 0; done < range.count;) {
      const uint64_t outer = (range.first + done) / len, at = (range.first + done) % len;
      const uint64_t count = std::min(range.count - done, len - at);
      const std::span<float> part = out.subspan(static_cast<size_t>(done), static_cast<size_t>(count));
      if (view_.fold == 1) {
        predict_row(outer, at, part);
      } else {
        predict_folded(outer, at, part);
      }
      done += count;
    }
  }

 private:
  static constexpr size_t kAtOnce = 1024;  // columns, which stay in the cache

  void predict_row(uint64_t row, uint64_t col, std::span<float> out) const {
    const float* const weights = of_row_.data() + row * rank_;
    for (size_t at = 0; at < out.size(); at += kAtOnce) {
      const size_t count = std::min(kAtOnce, out.size() - at);
      float* const to = out.data() + at;
      std::fill_n(to, count, 0.0F);
      for (size_t k = 0; k < rank_; ++k) {
        const float weight = weights[k];
        const float* const from = of_col_.data() + k * view_.cols + col + at;
        for (size_t i = 0; i < count; ++i) to[i] += weight * from[i];
      }
    }
  }

  // Elements from `at` of the cols x fold array that is number `outer`.
  void predict_folded(uint64_t outer, uint64_t at, std::span<float> out) const {
    const uint64_t first = at / view_.fold, end = (at + out.size() + view_.fold - 1) / view_.fold;
    Room<float> room;
    const std::span<float> row = room.first(end - first);
    for (uint64_t t = 0; t < view_.fold; ++t) {
      predict_row(outer * view_.fold + t, first, row);
      for (uint64_t col = first; col < end; ++col) {
        const uint64_t place = col * view_.fold + t;
        if (place >= at && place - at < out.size()) out[static_cast<size_t>(place - at)] = row[col - first];
      }
    }
  }

  MatrixView view_;
  size_t rank_;
  std::vector<float> of_row_, of_col_;  // row by row, weighted; component by component
};

std::vector<float> decoded_of(const Factors& factors, const kernels::Draws& draws) {
  std::vector<float> out(factors.symbols.size());
  kernels::dither_decode(factors.symbols.data(), out.size(), draws, 0, factors.lattice, out.data());
  return out;
}

class LowRankDecoder final : public Decoder {
 public:
  LowRankDecoder(Factors factors, const kernels::Draws& draws)
      : factors_(std::move(factors)), draws_(draws), prediction_(factors_, decoded_of(factors_, draws)) {}

  static std::unique_ptr<Decoder> restore(ByteReader& stored, const Inputs& inputs);

  Bytes stored() const override {
    Bytes out;
    put_varint(out, factors_.rank());
    if (factors_.rank() == 0) return out;
    put_varint(out, factors_.view.fold);
    for (const float weight : factors_.weights) put(out, weight);
    put(out, factors_.lattice.step);
    put_varint(out, factors_.lattice.max_level);
    if (factors_.scales) factors_.scales->write(out);
    Stream stream = stream_of(factors_, draws_);
    stream.symbols = factors_.symbols;
    Bytes bytes;
    coder_of(factors_).shrink(stream, bytes);
    put_varint(out, bytes.size());
    put_bytes(out, bytes);
    return out;
  }

  std::optional<uint64_t> params_size(Range) const override { return 0; }
  StreamShapes streams(const Code&, Range) const override { return {}; }
  std::string describe() const override {
    if (factors_.rank() == 0) return "rank 0";
    return "rank " + std::to_string(factors_.rank()) + " of " + std::to_string(factors_.view.rows) + "x" +
           std::to_string(factors_.view.cols) + ", step " + number_text(static_cast<double>(factors_.lattice.step), 4) +
           ", M " + std::to_string(factors_.lattice.max_level);
  }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    prediction_.predict(range, out);
    for (const Exception& exception : code.exceptions) require_needed(exception, true);
    put_back(code.exceptions, out);
  }

  // Where nothing is predicted the error is known; else all elements share the factors' errors.
  void laws(const Code& code, Range, std::span<const float> target, std::span<Law> laws) const override {
    for (size_t i = 0; i < laws.size(); ++i) {
      laws[i] = factors_.rank() == 0 ? Law::at(-static_cast<double>(target[i])) : Law();
    }
    for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
  }

  void predict(Range range, std::span<float> out) const { prediction_.predict(range, out); }
  const Prediction& prediction() const { return prediction_; }

 private:
  Factors factors_;
  kernels::Draws draws_;
  Prediction prediction_;
};

std::unique_ptr<Decoder> LowRankDecoder::restore(ByteReader& stored, const Inputs& inputs) {
  Factors factors;
  const kernels::Draws draws = draws_of(inputs);
  const uint64_t rank = stored.get_varint();
  if (rank == 0) return std::make_unique<LowRankDecoder>(std::move(factors), draws);
  if (rank > kMaxRank) stored.fail("says a rank of more than 128");
  if (inputs.rows == 0 || inputs.size == 0) stored.fail("says a rank for a tensor without rows and columns");
  MatrixView& view = factors.view;
  view.fold = stored.get_varint();
  view.cols = inputs.size / inputs.rows;
  if (view.fold == 0 || view.fold > view.cols || view.cols % view.fold != 0) {
    stored.fail("says a fold that does not divide what a row has");
  }
  view.cols /= view.fold;
  view.rows = inputs.rows * view.fold;
  if (rank > std::min(view.rows, view.cols)) stored.fail("says a rank above that of the matrix");
  if (view.rows > kMostCoordinates || view.cols > kMostCoordinates ||
      rank * (view.rows + view.cols) > kMostCoordinates) {
    stored.fail("says factors of more than 16777216 coordinates");
  }
  for (uint64_t k = 0; k < rank; ++k) {
    factors.weights.push_back(stored.get<float>());
    if (!(factors.weights.back() >= kLeastWeight && factors.weights.back() <= kMostWeight)) {
      stored.fail("holds a weight that is not from 2^-64 to 2^90");
    }
  }
  factors.lattice.step = stored.get<float>();
  if (!(factors.lattice.step >= kLeastStep && factors.lattice.step <= kMostStep)) {
    stored.fail("holds a step that is not from 2^-80 to 2^80");
  }
  const uint64_t level = stored.get_varint();
  if (level > kMaxLevel) stored.fail("says M = " + std::to_string(level) + ", more than 32767");
  factors.lattice.max_level = static_cast<uint32_t>(level);
  if (inputs.scales) factors.scales = LineScales::restore(stored, coordinate_inputs(inputs, factors), kWorth);
  const ByteView bytes = stored.get_bytes(stored.get_varint());
  Stream stream = stream_of(factors, draws);
  coder_of(factors).expand(bytes, factors.count(), stream);
  factors.symbols = std::move(stream.symbols);
  auto decoder = std::make_unique<LowRankDecoder>(std::move(factors), draws);
  if (!(decoder->prediction().largest_weighted() <= kMostWeighted)) stored.fail("hold factors beyond 2^16");
  return decoder;
}

double log2_of(double x) { return functions::natural_log(x) / kLn2; }

// About the bits of a normal value of deviation x steps under dither.
double bits_of(double x) {
  const double y = 12 * x * x;
  return 0.5 * log2_of(1 + y) + 0.25 * y / (1 + y);
}

// The rank, and what it is expected to cost: bits of the factors, and of what is left at a step of `step`. It sees the
// tensor and the step alone, never what is drawn for the message.
struct Pick {
  uint64_t rank = 0;
  double bits = 0;
};

Pick pick_rank(const Factorization& all, const MatrixView& view, double squares, double step) {
  const auto rows = static_cast<double>(view.rows), cols = static_cast<double>(view.cols);
  const double size = rows * cols, fine = kBeta * step;
  const auto left_bits = [&](double left) {
    return size * 0.5 * log2_of(1 + 12 * (std::max(0.0, left) / size) / (step * step));
  };
  Pick best = {0, left_bits(squares)};
  double left = squares, factor_bits = 0;
  for (uint64_t k = 0; k < all.rank(); ++k) {
    const double s = all.strength[k];
    if (s < kWeakest * fine) break;
    left -= s * s;
    factor_bits += rows * bits_of(s / (fine * std::sqrt(rows))) + cols * bits_of(s / (fine * std::sqrt(cols)));
    const double bits = factor_bits + left_bits(left);
    if (bits < best.bits) best = {k + 1, bits};
  }
  return best;
}

// The expected ||x' - x||^2 of the quantized factors.
double expected_error(const Factorization& all, const Factors& factors, double squares) {
  const auto step = static_cast<double>(factors.lattice.step);
  const double noise = step * step / 12;
  const auto rows = static_cast<double>(factors.view.rows), cols = static_cast<double>(factors.view.cols);
  double error = squares;
  for (size_t k = 0; k < factors.rank(); ++k) {
    const double s = all.strength[k], weight = static_cast<double>(factors.weights[k]);
    error += -s * s + noise * (rows + cols) * (weight * s) * (weight * s) +
             rows * cols * (weight * noise) * (weight * noise);
  }
  return std::max(error, 0.0);
}

class LowRankEncoder final : public Encoder {
 public:
  LowRankEncoder(const Tensor& tensor, uint64_t rank, std::optional<double> nmse, const Inputs& inputs)
      : tensor_(tensor) {
    const Energy energy = scan_energy(tensor, inputs);
    any_ = energy.extent.irregular > 0;
    error_ = squares_ = energy.squares;
    Factors factors;
    if (inputs.rows > 1 && squares_ >= kLeastSquares && squares_ <= kMostSquares) {
      double step = inputs.rest_step;
      if (nmse || step == 0) {
        step = static_cast<double>(step_for_nmse(squares_, tensor.size(), nmse.value_or(kNmse)));
      }
      fit(rank, step, inputs, factors);
    }
    decoder_ = std::make_unique<LowRankDecoder>(std::move(factors), draws_of(inputs));
  }

  const Decoder& decoder() const override { return *decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    code.params.clear();
    code.streams.clear();
    code.exceptions.clear();
    if (any_) read_regular(tensor_, range, true, code);
    if (decoded.empty()) return;
    decoder_->predict(range, decoded);
    put_back(code.exceptions, decoded);
  }

  Promise promise() const override {
    Promise promise;
    promise.variance = error_;
    const double left = squares_ > 0 ? error_ / squares_ * (1 + 0x1p-16) : 1;
    if (left < 1) promise.delta = 1 - left;
    return promise;
  }

 private:
  static constexpr double kNmse = 0.1;  // where nothing says it

  void fit(uint64_t rank, double step, const Inputs& inputs, Factors& factors) {
    const Regular regular(tensor_, any_);
    Factorization best;
    Pick pick;
    for (const uint64_t fold : folds()) {
      const MatrixView view = {inputs.rows * fold, tensor_.size() / inputs.rows / fold, fold};
      const uint64_t most = std::min({rank, view.rows, view.cols, kMostCoordinates / (view.rows + view.cols)});
      if (most == 0) continue;
      Factorization all = factorize(regular, view, most, start_of(inputs), inputs.loop);
      const Pick other = pick_rank(all, view, squares_, step);
      if (factors.view.rows != 0 && other.bits >= pick.bits) continue;
      pick = other;
      best = std::move(all);
      factors.view = view;
    }
    if (pick.rank > 0) quantize(best, pick.rank, step, inputs, factors);
    if (factors.rank() > 0) error_ = expected_error(best, factors, squares_);
  }

  // Of the run, so that messages differ in their dither alone.
  static kernels::Draws start_of(const Inputs& inputs) { return inputs.random.run_draws(Purpose::start, inputs.stage); }

  // Kernels of a convolution, out x in x k.., may stand below each other instead of side by side.
  std::vector<uint64_t> folds() const {
    const std::span<const uint64_t> shape = tensor_.shape();
    uint64_t fold = 1;
    for (size_t axis = 2; axis < shape.size(); ++axis) fold *= shape[axis];
    if (fold == 1) return {1};
    return {1, fold};
  }

  static void quantize(const Factorization& all, uint64_t rank, double step, const Inputs& inputs, Factors& factors) {
    const auto rows = static_cast<size_t>(factors.view.rows), cols = static_cast<size_t>(factors.view.cols);
    std::vector<float> values;
    values.reserve(static_cast<size_t>(rank) * (rows + cols));
    for (size_t k = 0; k < rank; ++k) {
      const double s = all.strength[k];
      factors.weights.push_back(static_cast<float>(1 / s));
      for (size_t i = 0; i < rows; ++i) values.push_back(static_cast<float>(s * all.u[k * rows + i]));
      for (size_t i = 0; i < cols; ++i) values.push_back(static_cast<float>(all.v[k * cols + i]));
    }
    const float largest = extent_of(values).max;
    factors.lattice.step = step_at_least(kBeta * step, largest, kMaxLevel);
    factors.lattice.max_level = level_for(largest, factors.lattice.step);
    factors.symbols.resize(values.size());
    kernels::dither_encode(values.data(), values.size(), draws_of(inputs), 0, factors.lattice, factors.symbols.data(),
                           nullptr);
    if (!inputs.scales) return;
    const Coordinates tensor(std::move(values), rank);
    const auto scale_step = static_cast<double>(factors.lattice.step);
    factors.scales = LineScales::measure(tensor, coordinate_inputs(inputs, factors), kWorth);
    factors.scales->set_step(scale_step);
    if (factors.scales->lines_pay()) return;
    factors.scales->forget_lines();
    factors.scales->set_step(scale_step);
  }

  const Tensor& tensor_;
  bool any_ = false;
  double squares_ = 0, error_ = 0;
  std::unique_ptr<LowRankDecoder> decoder_;
};

class LowRank final : public Scheme {
 public:
  std::string_view name() const override { return "lowrank"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override {
    return "a near matrix of low rank; made for lowrank:rank=8+dither:nmse=0.1";
  }
  std::string_view promises() const override {
    return "biased: a projection on few components, whose factors are dithered; the expected error is known;\n"
           "with an unbiased scheme behind '+' the sum is unbiased";
  }
  std::string_view source() const override {
    return "Halko, Martinsson and Tropp, SIAM Review 53, 2011; Vogels et al., NeurIPS 2019 (arXiv 1905.13727)";
  }
  bool draws() const override { return true; }
  void check(const Params&, bool) const override {}

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    std::optional<double> nmse;
    if (params.count("nmse") != 0) nmse = real_of(params, "nmse");
    return std::make_unique<LowRankEncoder>(tensor, static_cast<uint64_t>(integer_of(params, "rank")), nmse, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params&, ByteReader& stored, const Inputs& inputs) const override {
    return LowRankDecoder::restore(stored, inputs);
  }
};

}  // namespace

const Scheme& lowrank_scheme() {
  static const LowRank scheme;
  return scheme;
}

}  // namespace gradcodec
