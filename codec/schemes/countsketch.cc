// A count sketch of the tensor (Charikar, Chen and Farach-Colton, ICALP 2002), as gradients are sent in Sketched-SGD
// (Ivkin et al., NeurIPS 2019, arXiv 1903.04488) and FetchSGD (Rothchild et al., ICML 2020, arXiv 2007.07682). The
// table is the tensor's stored parameters; chunks hold exceptions alone.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/countsketch.h"

#include <array>
#include <bit>
#include <cmath>
#include <mutex>

#include "codec/scan.h"
#include "codec/sketch.h"
#include "codec/summable.h"

namespace gradcodec {
namespace {

constexpr int64_t kUsualExponent = 32;

constexpr std::array<ParamSpec, 5> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "rows",
     .help = "rows of the table, odd: an estimate is the median of as many",
     .min = 1,
     .max = kernels::kMaxSketchRows,
     .required = true,
     .decoder_needs = true,
     .example = "5"},
    {.kind = ParamSpec::amount,
     .name = "cols",
     .help = "columns of the table, at most as many as there are elements; or how many in a hundred elements",
     .min = 1,
     .max = static_cast<double>(kMaxCells),
     .required = true,
     .example = "1%"},
    {.kind = ParamSpec::choice,
     .name = "value",
     .help = "cells: f32; or i64, whole numbers of units of 2^-exp, whose sums are exact in any order",
     .choices = "f32|i64",
     .fallback = "f32",
     .decoder_needs = true},
    {.kind = ParamSpec::integer,
     .name = "exp",
     .help = "of value=i64: values are rounded to multiples of 2^-exp; 32 if not given",
     .min = 0,
     .max = kMaxSketchExponent,
     .decoder_needs = true,
     .example = "32"},
    {.kind = ParamSpec::choice,
     .name = "scope",
     .help = "hashes: of each step its own, or run: the same in all (where tables of several steps are added)",
     .choices = "step|run",
     .fallback = "step",
     .decoder_needs = true},
}};

bool is_whole(const Params& params) { return choice_of(params, "value") == "i64"; }
bool is_of_step(const Params& params) { return choice_of(params, "scope") == "step"; }

// But for its columns.
SketchLayout layout_of(const Params& params, const Inputs& inputs) {
  SketchLayout layout;
  layout.rows = static_cast<uint32_t>(integer_of(params, "rows"));
  if (is_whole(params)) {
    layout.type = CellType::i64;
    layout.exponent = static_cast<uint32_t>(integer_of(params, "exp"));
  }
  layout.hash = is_of_step(params) ? inputs.random.shared_draws(Purpose::hash, inputs.stage)
                                   : inputs.random.run_draws(Purpose::hash, inputs.stage);
  return layout;
}

// What is left of a sketch's decoder without the table: what chunks hold.
class BesideTableDecoder : public Decoder {
 public:
  explicit BesideTableDecoder(bool of_step) : of_step_(of_step) {}

  Bytes stored() const override { return {}; }
  std::optional<uint64_t> params_size(Range) const override { return 0; }
  StreamShapes streams(const Code&, Range) const override { return {}; }

  std::string describe() const override { return "a sketch without its table"; }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    for (const Exception& exception : code.exceptions) require_needed(exception, true);
    estimate(range.first, out);
    put_back(code.exceptions, out);
  }

  // The values of other elements decide an element's errors, and no law of a single one can say how.
  void laws(const Code& code, Range, std::span<const float>, std::span<Law> laws) const override {
    std::fill(laws.begin(), laws.end(), Law());
    for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
  }

  bool is_digested() const override { return false; }
  bool shares_draws() const override { return of_step_; }

 protected:
  // Of what the table is of, from element `first` on.
  virtual void estimate(uint64_t, std::span<float> out) const { std::fill(out.begin(), out.end(), 0.0F); }
  bool of_step() const { return of_step_; }

 private:
  const bool of_step_;
};

class SketchDecoder final : public BesideTableDecoder, public Summable {
 public:
  SketchDecoder(Table table, bool of_step) : BesideTableDecoder(of_step), table_(std::move(table)) {}

  Bytes stored() const override {
    Bytes out;
    table_.store(out);
    return out;
  }

  std::string describe() const override {
    const SketchLayout& layout = table_.layout();
    return std::to_string(layout.rows) + " rows of " + std::to_string(layout.cols) +
           (layout.type == CellType::f32 ? "" : ", units of 2^-" + std::to_string(layout.exponent));
  }

  const Summable* summable() const override { return this; }
  Summands summands() const override { return {.kind = Summands::tables}; }
  const Table& table() const override { return table_; }
  std::unique_ptr<Decoder> without_table() const override { return std::make_unique<BesideTableDecoder>(of_step()); }

 private:
  void estimate(uint64_t first, std::span<float> out) const override { table_.estimate(first, out); }

  const Table table_;
};

class SketchEncoder final : public Encoder {
 public:
  SketchEncoder(const Tensor& tensor, const SketchLayout& layout, bool of_step, const Inputs& inputs)
      : tensor_(tensor),
        chunk_len_(inputs.chunk_len),
        irregular_(scan_extent(tensor, inputs).irregular),
        decoder_(Table::of(tensor, layout, inputs), of_step),
        grid_(*this) {
    if (layout.type == CellType::i64) decoder_.stored();  // refuses what is too wide
  }

  const Decoder& decoder() const override { return decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    code.params.clear();
    code.streams.clear();
    code.exceptions.clear();
    if (irregular_ > 0) read_regular(tensor_, range, true, code);
    if (!decoded.empty()) decoder_.decode(code, range, decoded);
  }

  // Of one row, what others add to an element's estimate has random signs, that are independent in pairs, and is there
  // with the probability of a collision. The median m of R rows that err e_i: at least (R + 1) / 2 of them err by |m|
  // or more, so that m^2 <= 2 / (R + 1) sum e_i^2.
  Promise promise() const override {
    const SketchLayout& layout = decoder_.table().layout();
    const auto rows = static_cast<double>(layout.rows);
    const uint64_t values = tensor_.size() - irregular_;
    const double others = values == 0 ? 0 : static_cast<double>(values - 1) * layout.collision();
    Promise promise;
    promise.unbiased = promise.symmetric = true;
    if (layout.type == CellType::i64) promise.target = &grid_;
    if (layout.rows == 1) promise.variance = others * squares();
    promise.omega = 2 * rows / (rows + 1) * others * (1 + 0x1p-30);
    promise.delta = delta_of(promise.omega);
    return promise;
  }

 private:
  // What is sketched, where it is not the tensor itself: its values to multiples of a unit, 0 for what is not regular.
  class Grid final : public Tensor {
   public:
    explicit Grid(const SketchEncoder& encoder) : encoder_(encoder) {}
    uint64_t size() const override { return encoder_.tensor_.size(); }
    std::span<const uint64_t> shape() const override { return encoder_.tensor_.shape(); }
    std::span<const float> read(Range range, std::span<float> scratch) const override {
      const std::span<const float> x = encoder_.tensor_.read(range, scratch);
      const std::span<float> out = scratch.first(static_cast<size_t>(range.count));
      std::transform(x.begin(), x.end(), out.begin(), [&](float value) {
        if (!fits(std::bit_cast<uint32_t>(value), kInfinity)) return value;
        return to_units(value, encoder_.decoder_.table().layout().exponent);
      });
      return out;
    }

   private:
    const SketchEncoder& encoder_;
  };

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double squares() const {
    double total = 0;
    for_each_chunk(*this_target(), chunk_len_, [&](Range, std::span<const float> x) { total += squares_of(x); });
    return total;
  }

  const Tensor* this_target() const {
    if (decoder_.table().layout().type == CellType::i64) return &grid_;
    return &tensor_;
  }

  const Tensor& tensor_;
  const uint64_t chunk_len_;
  const uint64_t irregular_;
  const SketchDecoder decoder_;
  const Grid grid_;
};

class CountSketch final : public Scheme {
 public:
  std::string_view name() const override { return kSketchScheme; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override { return "a table of random sums that can be added; decodes to estimates"; }
  std::string_view promises() const override {
    return "unbiased over the hashes, each error as likely above 0 as below; of one row variance (||x||^2 - x_j^2) / "
           "cols\n"
           "an element, of R rows at most 2R / (R + 1) times that; errors of elements are not independent, and the "
           "same\n"
           "for all workers of a step; with value=i64, all this for the values to multiples of 2^-exp";
  }
  std::string_view source() const override {
    return "Charikar, Chen and Farach-Colton, ICALP 2002; Ivkin et al., arXiv 1903.04488; Rothchild et al., arXiv "
           "2007.07682";
  }

  bool draws() const override { return true; }
  bool adds_up(const Params&) const override { return true; }
  unsigned work_per_value(const Params& params) const override {
    // What the rows say of a chunk's values; and of a tensor of one chunk the table, once more while it is made or
    // added.
    const auto rows = static_cast<unsigned>(integer_of(params, "rows"));
    return 16 + rows * (is_whole(params) ? 8 + 16 : 4 + 8);
  }

  void complete(Params& params) const override {
    if (is_whole(params)) params.emplace("exp", kUsualExponent);
  }

  void check(const Params& params, bool) const override {
    const int64_t rows = integer_of(params, "rows");
    if (rows % 2 == 0) {
      throw Error(Exit::usage, "'rows' must be odd, not " + std::to_string(rows) + ": an estimate is the middle one");
    }
    if (!is_whole(params) && params.count("exp") != 0) throw Error(Exit::usage, "'exp' is of value=i64");
  }

  // Messages of a run share all hashes: trials need other ones.
  Params rehearsed(const Params& params) const override {
    Params out = params;
    out["scope"] = std::string("step");
    return out;
  }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    SketchLayout layout = layout_of(params, inputs);
    layout.cols = amount_of(params, "cols").of(tensor.size());
    return std::make_unique<SketchEncoder>(tensor, layout, is_of_step(params), inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    return std::make_unique<SketchDecoder>(Table::parse(layout_of(params, inputs), inputs.size, stored),
                                           is_of_step(params));
  }
};

}  // namespace

const Scheme& countsketch_scheme() {
  static const CountSketch scheme;
  return scheme;
}

}  // namespace gradcodec
