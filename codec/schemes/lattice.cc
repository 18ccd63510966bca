// Zamir and Feder, "On lattice quantization noise", IEEE Transactions on Information Theory 42, 1996; Shlezinger, Chen,
// Eldar, Poor and Cui, "UVeQFed: universal vector quantization for federated learning", arXiv 2006.03262. The scale is
// chosen for the error: that of `dither` with the same nmse or step. What a chunk stores is in codec/lattice/index.h.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/lattice.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "codec/lattice/index.h"
#include "codec/lattice/vectors.h"
#include "codec/scan.h"

namespace gradcodec {
namespace {

using lattice::Cell;
using lattice::IndexShape;
using lattice::Kind;
using lattice::Scales;

constexpr float kMinScale = 0x1p-126F;
constexpr float kMaxScale = 0x1p126F;

constexpr std::array<ParamSpec, 3> kParams = {{
    {.kind = ParamSpec::choice,
     .name = "kind",
     .help = "the lattice: hexagons, or the densest one of 4 or 8 dimensions",
     .choices = "a2|d4|e8",
     .fallback = "e8",
     .decoder_needs = true},
    {.kind = ParamSpec::real,
     .name = "nmse",
     .help = "expected squared error over squared norm, of each tensor",
     .min = 1e-8,
     .max = 1e4,
     .example = "0.1"},
    {.kind = ParamSpec::real,
     .name = "step",
     .help = "instead of nmse: a step whose subtractive dither has the same variance",
     .min = 1e-37,
     .max = 1e37},
}};

Kind kind_of(const Params& params) {
  const std::string_view name = choice_of(params, "kind");
  return name == "a2" ? Kind::a2 : name == "d4" ? Kind::d4 : Kind::e8;
}

std::string_view name_of(Kind kind) { return kind == Kind::a2 ? "A2" : kind == Kind::d4 ? "D4" : "E8"; }

bool is_scale(float scale) { return scale == 0 ? !std::signbit(scale) : scale >= kMinScale && scale <= kMaxScale; }

float clamp_scale(double scale) {
  return static_cast<float>(std::clamp(scale, static_cast<double>(kMinScale), static_cast<double>(kMaxScale)));
}

// Room for the points of a chunk, of the calling thread.
std::span<int32_t> point_room(Kind kind, uint64_t elements) {
  thread_local std::vector<int32_t> room;
  const auto size = static_cast<size_t>(lattice::vectors_of(kind, elements)) * lattice::cell_of(kind).dimension;
  room.resize(std::max(room.size(), size));
  return std::span(room).first(size);
}

class LatticeDecoder final : public Decoder {
 public:
  LatticeDecoder(Kind kind, float scale, const Inputs& inputs)
      : kind_(kind),
        scale_(scale),
        draws_{inputs.random.draws(Purpose::cell, inputs.stage, 0),
               inputs.random.draws(Purpose::cell, inputs.stage, 1)} {}

  Bytes stored() const override {
    Bytes out;
    put(out, scale_);
    return out;
  }

  std::optional<uint64_t> params_size(Range) const override { return std::nullopt; }

  void take_params(Range range, ByteReader& payload, Code& code) const override {
    const IndexShape shape = IndexShape::take(payload, vectors_of(range));
    if (scale_ == 0 && (shape.joint_level != 0 || shape.escapes != 0)) payload.fail("has points beside a scale of 0");
    code.params.clear();
    shape.put(code.params);
  }

  StreamShapes streams(const Code& code, Range range) const override {
    return shape_of(code, range).streams(kind_, vectors_of(range));
  }

  std::string describe() const override {
    std::array<char, 32> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), scale_, std::chars_format::general, 4).ptr;
    return std::string(name_of(kind_)) + ", scale " + std::string(text.data(), end);
  }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    if (scale_ == 0) {
      std::fill(out.begin(), out.end(), 0.0F);
    } else {
      const std::span<int32_t> points = point_room(kind_, range.count);
      lattice::from_streams(kind_, shape_of(code, range), code.streams, points);
      lattice::restore(points.data(), kind_, draws_, range, Scales(kind_, scale_), out);
    }
    for (const Exception& exception : code.exceptions) {
      if (!fits(exception.bits, limit())) continue;
      throw Error(Exit::bad_input,
                  "element " + std::to_string(exception.index) + " of the chunk is an exception without need");
    }
    put_back(code.exceptions, out);
  }

  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override {
    for (size_t i = 0; i < static_cast<size_t>(range.count); ++i) {
      laws[i] = law_of(i);
      if (!(std::fabs(static_cast<double>(target[i])) <= limit())) laws[i].kind = Law::outside;
    }
    for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
  }

  Kind kind() const { return kind_; }
  float scale() const { return scale_; }
  const lattice::CellDraws& draws() const { return draws_; }

  // Values beyond it are set aside. Exact: 15 bits times 24.
  double limit() const {
    return scale_ == 0 ? std::numeric_limits<double>::infinity()
                       : static_cast<double>(lattice::kMaxReach) * static_cast<double>(scale_);
  }

  // Of each element's error.
  double variance() const {
    const auto scale = static_cast<double>(scale_);
    return lattice::cell_of(kind_).variance * scale * scale;
  }

  double max_error() const { return lattice::cell_of(kind_).radius * static_cast<double>(scale_); }

 private:
  uint64_t vectors_of(Range range) const { return lattice::vectors_of(kind_, range.count); }

  IndexShape shape_of(const Code& code, Range range) const {
    ByteReader params(code.params, "the parameters of a chunk");
    return IndexShape::take(params, vectors_of(range));
  }

  Law law_of(size_t i) const {
    if (scale_ == 0) return Law::at(0);
    const Cell cell = lattice::cell_of(kind_);
    return Law::in_cell(cell.radius * static_cast<double>(scale_), variance(), static_cast<uint32_t>(cell.dimension),
                        i / cell.dimension);
  }

  Kind kind_;
  float scale_;
  lattice::CellDraws draws_;
};

class LatticeEncoder final : public Encoder {
 public:
  // `omega`: what is promised unless the scale had to be raised to 2^-126.
  LatticeEncoder(const Tensor& tensor, Kind kind, float scale, const Inputs& inputs, bool exceptions,
                 std::optional<double> omega)
      : tensor_(tensor),
        decoder_(kind, scale, inputs),
        chunks_(tensor.size(), inputs),
        exceptions_(exceptions),
        omega_(omega) {}

  const Decoder& decoder() const override { return decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    const Kind kind = decoder_.kind();
    code.exceptions.clear();
    const std::span<const float> x = read(range, code);
    const std::span<int32_t> points = point_room(kind, range.count);
    if (decoder_.scale() == 0) {
      std::fill(points.begin(), points.end(), 0);
      std::fill(decoded.begin(), decoded.end(), 0.0F);
    } else {
      lattice::quantize(x, kind, decoder_.draws(), range, Scales(kind, decoder_.scale()), points.data(), decoded);
    }
    code.params.clear();
    lattice::to_streams(kind, points, code.streams).put(code.params);
    if (!decoded.empty()) put_back(code.exceptions, decoded);
  }

  Promise promise() const override {
    uint64_t quantized = tensor_.size();
    Code code;
    for (uint64_t i = 0; exceptions_ && i < chunks_.count(); ++i) {
      code.exceptions.clear();
      read(chunks_[i], code);
      quantized -= code.exceptions.size();
    }
    Promise promise;
    promise.unbiased = promise.independent = true;
    promise.variance = static_cast<double>(quantized) * decoder_.variance();
    promise.max_error = decoder_.max_error();
    if (decoder_.scale() != kMinScale) promise.omega = omega_;
    promise.delta = delta_of(promise.omega);
    return promise;
  }

 private:
  // The chunk's values as they are quantized: what cannot be is set aside.
  std::span<const float> read(Range range, Code& code) const {
    code.scratch.resize(std::max(code.scratch.size(), static_cast<size_t>(range.count)));
    const std::span<float> scratch = std::span(code.scratch).first(static_cast<size_t>(range.count));
    const std::span<const float> x = tensor_.read(range, scratch);
    if (!exceptions_) return x;
    if (x.data() != scratch.data()) std::copy(x.begin(), x.end(), scratch.begin());
    set_aside(scratch, decoder_.limit(), 0, code.exceptions);
    return scratch;
  }

  const Tensor& tensor_;
  LatticeDecoder decoder_;
  Chunks chunks_;
  bool exceptions_;
  std::optional<double> omega_;
};

class LatticeScheme final : public Scheme {
 public:
  std::string_view name() const override { return "lattice"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "subtractive dither of vectors, to the points of a lattice"; }
  std::string_view promises() const override {
    return "unbiased; the error of a vector of 2, 4 or 8 elements uniform on a cell of the lattice and independent of\n"
           "the values; E||x'-x||^2 = nmse ||x||^2 for each tensor (less where values are kept exactly);\n"
           "fewer bits than dither for the same error";
  }
  std::string_view source() const override { return "Zamir and Feder 1996; Shlezinger et al., arXiv 2006.03262"; }

  bool draws() const override { return true; }

  void check(const Params& params, bool encoding) const override {
    const bool nmse = params.count("nmse") != 0, step = params.count("step") != 0;
    if (encoding && nmse == step) throw Error(Exit::usage, "give either 'nmse' or 'step'");
  }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const Kind kind = kind_of(params);
    const double variance = lattice::cell_of(kind).variance;
    float scale = 0;
    std::optional<double> omega;
    Extent extent;
    if (params.count("nmse") != 0) {
      const Energy energy = scan_energy(tensor, inputs);
      extent = energy.extent;
      const double nmse = inputs.nmse_for(real_of(params, "nmse"), energy.squares);
      if (energy.squares > 0) {
        scale = clamp_scale(std::sqrt(nmse * (energy.squares / static_cast<double>(tensor.size())) / variance));
      }
      omega = nmse * (1 + 0x1p-21);  // scales are rounded to float32, sums to float64
    } else {
      extent = scan_extent(tensor, inputs);
      if (extent.max > 0) scale = clamp_scale(real_of(params, "step") * std::sqrt(1 / (12 * variance)));
    }
    const double limit = static_cast<double>(lattice::kMaxReach) * static_cast<double>(scale);
    const bool exceptions = extent.irregular > 0 || static_cast<double>(extent.max) > limit;
    return std::make_unique<LatticeEncoder>(tensor, kind, scale, inputs, exceptions, omega);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    const auto scale = stored.get<float>();
    if (!is_scale(scale)) stored.fail("holds a scale that is not 0 or from 2^-126 to 2^126");
    return std::make_unique<LatticeDecoder>(kind_of(params), scale, inputs);
  }
};

}  // namespace

const Scheme& lattice_scheme() {
  static const LatticeScheme scheme;
  return scheme;
}

}  // namespace gradcodec
