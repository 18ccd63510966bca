// Abdi and Fekri, "Nested dithered quantization for communication reduction in distributed training", arXiv 1904.01197;
// Zamir, Shamai and Erez, "Nested linear/lattice codes for structured multiterminal binning", 2002. The fine step is
// range max|x| / fine, rounded up to float32; the coarse one is rho = fine / coarse times it.
//
// With t = alpha x / step + u the encoder sends round(t) modulo rho. The decoder, which has y, takes the point of that
// class which is nearest to alpha y / step + u: the right one if |alpha (x - y) / step + (round(t) - t)| < rho / 2.
// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/ndqsg.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "codec/checksum.h"
#include "codec/kernels/nested.h"
#include "codec/number_text.h"
#include "codec/scan.h"
#include "codec/schemes/grid_quantizer.h"

namespace gradcodec {
namespace {

constexpr double kMinAlpha = 0.001;
constexpr uint32_t kSignedClasses = 2 * kernels::kDitherClasses;

constexpr uint32_t kMostCoarse = kMaxLevel / 2;  // rho is 2 or more

constexpr std::array<ParamSpec, 5> kParams = {{
    {.kind = ParamSpec::integer,
     .name = "fine",
     .help = "M1, levels of the fine lattice on a side: its step is range max|x| / fine",
     .min = 2,
     .max = kMaxLevel,
     .required = true,
     .example = "3"},
    {.kind = ParamSpec::integer,
     .name = "coarse",
     .help = "M2, of the coarse lattice; a divisor of fine. rho = fine / coarse symbols are sent",
     .min = 1,
     .max = kMostCoarse,
     .required = true,
     .example = "1"},
    {.kind = ParamSpec::real,
     .name = "alpha",
     .help = "below 1 the side information has a part in the value: less error, but biased",
     .min = kMinAlpha,
     .max = 1,
     .fallback = "1"},
    {.kind = ParamSpec::real,
     .name = "range",
     .help = "what both lattices are scaled by: the coarse step is range max|x| / coarse",
     .min = 1e-4,
     .max = 1e4,
     .fallback = "1"},
    {.kind = ParamSpec::choice,
     .name = "check",
     .help = "4 bytes a chunk, by which the decoder sees that side information was too far",
     .choices = "no|yes",
     .fallback = "no",
     .decoder_needs = true},
}};

// What both sides know of a tensor.
struct Nested {
  float step = 0;
  uint32_t rho = 2;
  double alpha = 1;
  bool checked = false;

  double per_side() const { return step == 0 ? 0 : alpha / (static_cast<double>(rho) * static_cast<double>(step)); }
  double per_fine() const { return 1 / static_cast<double>(rho); }
};

bool is_checked(const Params& params) { return choice_of(params, "check") == "yes"; }

// Room of the calling thread for a chunk's side information and integers.
struct Room {
  std::vector<float> sides, scaled;
  std::vector<int32_t> fine;
};

Room& room_for(uint64_t count) {
  thread_local Room room;
  const auto size = static_cast<size_t>(count);
  room.sides.resize(std::max(room.sides.size(), size));
  room.scaled.resize(std::max(room.scaled.size(), size));
  room.fine.resize(std::max(room.fine.size(), size));
  return room;
}

uint32_t check_of(std::span<const int32_t> fine) {
  return static_cast<uint32_t>(checksum(LittleBytes<int32_t>(fine), 0));
}

class NdqsgDecoder final : public Decoder {
 public:
  NdqsgDecoder(const Nested& nested, const Inputs& inputs)
      : nested_(nested),
        nesting_{.step = nested.step,
                 .rho = nested.rho,
                 .alpha = nested.alpha,
                 .per_side = nested.per_side(),
                 .per_fine = nested.per_fine(),
                 .keep = 1 - nested.alpha * nested.alpha,
                 .cell = nested.alpha * static_cast<double>(nested.step),
                 .most = static_cast<int32_t>(kMaxLevel / nested.rho) + 1},
        draws_(inputs.random.draws(Purpose::rounding, inputs.stage)),
        side_(inputs.side) {}

  Bytes stored() const override {
    Bytes out;
    put(out, nested_.step);
    put_varint(out, nested_.rho);
    put(out, nested_.alpha);
    put(out, nesting_.per_side);
    put(out, nesting_.per_fine);
    return out;
  }

  std::optional<uint64_t> params_size(Range) const override { return nested_.checked ? sizeof(uint32_t) : 0; }

  StreamShapes streams(const Code&, Range range) const override {
    return {{nested_.rho, range.count, mirrors() ? kernels::kDitherClasses : kSignedClasses}};
  }

  std::string describe() const override {
    std::string text =
        "step " + number_text(static_cast<double>(nested_.step), 4) + ", rho " + std::to_string(nested_.rho);
    if (nested_.alpha != 1) text += ", alpha " + number_text(nested_.alpha, 4);
    return text;
  }

  // An even number of symbols has none in its middle for the others to be mirrored about: the sign is in the class.
  void contexts(const Code&, size_t, Range range, std::span<uint16_t> out) const override {
    kernels::dither_contexts(draws_, range.first, out.size(), out.data());
    if (mirrors()) return;
    for (uint16_t& context : out) {
      const uint32_t sign = context & 1U, distance = context >> 1U;
      context = static_cast<uint16_t>(2 * (distance + kernels::kDitherClasses * sign));
    }
  }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    check_code(code);
    if (side_ == nullptr) return;
    std::span<int32_t> fine;
    if (nested_.checked) fine = std::span(room_for(range.count).fine).first(static_cast<size_t>(range.count));
    if (nested_.step == 0) {
      std::fill(out.begin(), out.end(), 0.0F);
      std::fill(fine.begin(), fine.end(), 0);
    } else {
      restore(code, range, sides(range), fine, out);
    }
    put_back(code.exceptions, out);
    if (!nested_.checked) return;
    for (const Exception& exception : code.exceptions) fine[static_cast<size_t>(exception.index)] = 0;
    if (check_of(fine) == ByteReader(code.params, "the parameters of a chunk").get<uint32_t>()) return;
    throw Overload("the side information is another one than the values were coded for, or too far from them");
  }

  // Of symbols and `sides` of the chunk; what of `fine` and `out` there is. The step is not 0.
  void restore(const Code& code, Range range, std::span<const float> sides, std::span<int32_t> fine,
               std::span<float> out) const {
    kernels::nested_decode(code.streams[0].symbols.data(), sides.data(), out.size(), draws_, range.first, nesting_,
                           fine.empty() ? nullptr : fine.data(), out.data());
  }

  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override {
    const SideNeed need = *side_need();
    const double half = need.cell() / 2, reach = limit();
    const std::span<const float> y = side_ == nullptr || nested_.step == 0 ? target : sides(range);
    for (size_t i = 0; i < laws.size(); ++i) {
      const auto x = static_cast<double>(target[i]);
      const double distance = x - static_cast<double>(side_value(y[i]));
      const double middle = need.shift() * distance;
      laws[i] = nested_.step == 0 ? Law::at(0) : Law(Law::uniform, middle - half, middle + half, 0);
      if (nested_.step == 0) continue;
      if (!(std::fabs(x) <= reach && std::fabs(distance) <= need.limit())) laws[i].kind = Law::outside;
    }
    for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
  }

  bool is_digested() const override { return nested_.alpha == 1; }

  std::optional<SideNeed> side_need() const override {
    return SideNeed{static_cast<double>(nested_.step), nested_.rho, nested_.alpha, nested_.alpha == 1};
  }

  // The chunk's side information.
  std::span<const float> sides(Range range) const { return side_->read(range, room_for(range.count).sides); }
  const Tensor* side() const { return side_; }

  // Values beyond it are set aside. Exact: 15 bits times 24.
  double limit() const {
    return nested_.step == 0 ? std::numeric_limits<double>::infinity()
                             : static_cast<double>(kMaxLevel) * static_cast<double>(nested_.step);
  }

  const Nested& nested() const { return nested_; }
  const kernels::Draws& draws() const { return draws_; }
  uint16_t zero() const { return static_cast<uint16_t>(nested_.rho / 2); }

 private:
  bool mirrors() const { return nested_.rho % 2 == 1; }

  // What no encoder writes, as far as it is seen without side information.
  void check_code(const Code& code) const {
    const std::vector<uint16_t>& symbols = code.streams[0].symbols;
    const auto is_zero = [this](uint16_t symbol) { return symbol == zero(); };
    if (nested_.step == 0 && !std::all_of(symbols.begin(), symbols.end(), is_zero)) {
      throw Error(Exit::bad_input, "the chunk has a symbol that is not 0 where the step is 0");
    }
    for (const Exception& exception : code.exceptions) {
      require_needed(exception, is_zero(symbols[static_cast<size_t>(exception.index)]), limit());
    }
  }

  const Nested nested_;
  const kernels::Nesting nesting_;
  const kernels::Draws draws_;
  const Tensor* const side_;
};

class NdqsgEncoder final : public Encoder {
 public:
  // `max_level`: the largest |q|.
  NdqsgEncoder(const Tensor& tensor, const Nested& nested, uint32_t max_level, bool exceptions, const Inputs& inputs)
      : tensor_(tensor),
        decoder_(nested, inputs),
        chunks_(tensor.size(), inputs),
        max_level_(max_level),
        exceptions_(exceptions) {
    const size_t levels = 2 * size_t{max_level} + 1;
    if (levels > tensor.size()) return;
    for (size_t level = 0; level < levels; ++level) rests_.push_back(rest_of(static_cast<uint16_t>(level)));
  }

  const Decoder& decoder() const override { return decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    const Nested& nested = decoder_.nested();
    code.exceptions.clear();
    code.streams.resize(1);
    code.streams[0].alphabet = nested.rho;
    std::vector<uint16_t>& symbols = code.streams[0].symbols;
    symbols.resize(static_cast<size_t>(range.count));
    const std::span<const float> x = read(range, code);
    const kernels::Lattice lattice = {nested.step, max_level_};
    if (nested.alpha == 1) {
      kernels::dither_encode(x.data(), x.size(), decoder_.draws(), range.first, lattice, symbols.data(),
                             decoded.empty() ? nullptr : decoded.data());
    } else {
      const std::span<const float> scaled = scale(x);
      kernels::dither_encode(scaled.data(), x.size(), decoder_.draws(), range.first, lattice, symbols.data(), nullptr);
    }
    code.params.clear();
    if (nested.checked) put(code.params, check_of(fine_of(symbols)));
    for (uint16_t& symbol : symbols) symbol = rests_.empty() ? rest_of(symbol) : rests_[symbol];
    if (nested.alpha != 1 && !decoded.empty()) decode_near(code, range, x, decoded);
    if (!decoded.empty()) put_back(code.exceptions, decoded);
  }

  Promise promise() const override {
    Promise promise;
    promise.independent = true;
    if (decoder_.side() == nullptr && decoder_.nested().step != 0) return promise;  // it may be anywhere
    const SideNeed need = *decoder_.side_need();
    Code code;
    double moved = 0, furthest = 0;
    uint64_t quantized = 0;
    for (uint64_t i = 0; i < chunks_.count() && need.step != 0; ++i) {
      code.exceptions.clear();
      const std::span<const float> x = read(chunks_[i], code), y = decoder_.sides(chunks_[i]);
      quantized += x.size() - code.exceptions.size();
      size_t next = 0;
      for (size_t j = 0; j < x.size(); ++j) {
        if (next < code.exceptions.size() && code.exceptions[next].index == j) {
          ++next;
          continue;
        }
        const double distance = static_cast<double>(x[j]) - static_cast<double>(side_value(y[j]));
        furthest = std::max(furthest, std::fabs(distance));
        moved += distance * distance;
      }
    }
    if (need.step != 0 && !(furthest <= need.limit())) return promise;
    promise.unbiased = need.alpha == 1;
    promise.variance =
        static_cast<double>(quantized) * need.cell() * need.cell() / 12 + need.shift() * need.shift() * moved;
    promise.max_error = need.cell() / 2 - need.shift() * furthest;
    return promise;
  }

 private:
  // The symbol of a level q + M.
  uint16_t rest_of(uint16_t level) const {
    const int32_t rho = static_cast<int32_t>(decoder_.nested().rho);
    const int32_t rest = (int32_t{level} - static_cast<int32_t>(max_level_) + int32_t{decoder_.zero()}) % rho;
    return static_cast<uint16_t>(rest < 0 ? rest + rho : rest);
  }

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

  std::span<const float> scale(std::span<const float> x) const {
    const std::span<float> scaled = std::span(room_for(x.size()).scaled).first(x.size());
    const double alpha = decoder_.nested().alpha;
    std::transform(x.begin(), x.end(), scaled.begin(),
                   [alpha](float value) { return static_cast<float>(alpha * static_cast<double>(value)); });
    return scaled;
  }

  // The integers whose `levels`, q + M, are there still.
  std::span<const int32_t> fine_of(std::span<const uint16_t> levels) const {
    const std::span<int32_t> fine = std::span(room_for(levels.size()).fine).first(levels.size());
    std::transform(levels.begin(), levels.end(), fine.begin(),
                   [this](uint16_t level) { return int32_t{level} - static_cast<int32_t>(max_level_); });
    return fine;
  }

  // What is decoded with the side information, or with the values themselves where there is none yet.
  void decode_near(const Code& code, Range range, std::span<const float> x, std::span<float> decoded) const {
    if (decoder_.nested().step == 0) {
      std::fill(decoded.begin(), decoded.end(), 0.0F);
    } else {
      decoder_.restore(code, range, decoder_.side() == nullptr ? x : decoder_.sides(range), {}, decoded);
    }
  }

  const Tensor& tensor_;
  NdqsgDecoder decoder_;
  Chunks chunks_;
  uint32_t max_level_;
  bool exceptions_;
  std::vector<uint16_t> rests_;  // by level; empty if there are fewer values than levels
};

class Ndqsg final : public Scheme {
 public:
  std::string_view name() const override { return "ndqsg"; }
  std::span<const ParamSpec> params() const override { return kParams; }
  std::string_view summary() const override {
    return "dqsg modulo rho: the decoder has side information near the values";
  }
  std::string_view promises() const override {
    return "while |x - y| of the side information y is below (rho - 1) step / (2 alpha), step = range max|x| / fine:\n"
           "with alpha = 1 unbiased, each error uniform on (-step/2, step/2), as dqsg of the same step; with alpha < "
           "1\n"
           "the error is -(1 - alpha^2)(x - y) and alpha times such a one. Where it is further, decoded values may be\n"
           "wrong by multiples of alpha rho step: check=yes sees it, stats and compress --side-info measure it";
  }
  std::string_view source() const override {
    return "Abdi and Fekri, arXiv 1904.01197; Zamir, Shamai and Erez, IEEE Transactions on Information Theory 48, 2002";
  }

  bool draws() const override { return true; }
  bool takes_side() const override { return true; }
  unsigned work_per_value(const Params&) const override { return 12; }

  void check(const Params& params, bool encoding) const override {
    if (!encoding) return;
    const int64_t fine = integer_of(params, "fine"), coarse = integer_of(params, "coarse");
    if (fine % coarse == 0 && fine > coarse) return;
    throw Error(Exit::usage, "'fine' must be a multiple of 'coarse', twice it or more: not " + std::to_string(fine) +
                                 " of " + std::to_string(coarse));
  }

  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const override {
    const auto fine = static_cast<uint32_t>(integer_of(params, "fine"));
    const double range = real_of(params, "range");
    const Extent extent = scan_extent(tensor, inputs);
    Nested nested;
    nested.step = step_for_range(range * static_cast<double>(extent.max), fine);
    nested.rho = fine / static_cast<uint32_t>(integer_of(params, "coarse"));
    nested.alpha = real_of(params, "alpha");
    nested.checked = is_checked(params);
    // As dqsg rounds, where the step is its own.
    const uint32_t reach = level_for(extent.max, nested.step);
    const uint32_t max_level = nested.step == 0 ? 0 : std::max(reach, range > 1 ? 0 : fine);
    const bool beyond = nested.step > 0 && static_cast<double>(extent.max) >
                                               static_cast<double>(kMaxLevel) * static_cast<double>(nested.step);
    return std::make_unique<NdqsgEncoder>(tensor, nested, max_level, extent.irregular > 0 || beyond, inputs);
  }

  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const override {
    Nested nested;
    nested.step = stored.get<float>();
    if (!is_step(nested.step)) stored.fail("holds a step that is not 0 or from 2^-126 to 2^126");
    const uint64_t rho = stored.get_varint();
    if (rho < 2 || rho > kMaxLevel) stored.fail("says rho = " + std::to_string(rho) + ", which is not from 2 to 32767");
    nested.rho = static_cast<uint32_t>(rho);
    nested.alpha = stored.get<double>();
    if (!(nested.alpha >= kMinAlpha && nested.alpha <= 1)) stored.fail("holds an alpha that is not from 0.001 to 1");
    const auto per_side = stored.get<double>(), per_fine = stored.get<double>();
    if (std::bit_cast<uint64_t>(per_side) != std::bit_cast<uint64_t>(nested.per_side()) ||
        std::bit_cast<uint64_t>(per_fine) != std::bit_cast<uint64_t>(nested.per_fine())) {
      stored.fail("holds factors that do not follow from its step, rho and alpha");
    }
    nested.checked = is_checked(params);
    return std::make_unique<NdqsgDecoder>(nested, inputs);
  }
};

}  // namespace

const Scheme& ndqsg_scheme() {
  static const Ndqsg scheme;
  return scheme;
}

}  // namespace gradcodec
