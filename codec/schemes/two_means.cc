// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/two_means.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "codec/number_text.h"
#include "codec/scan.h"

namespace gradcodec {
namespace {

// What a 0 and a 1 decode to.
using Levels = std::array<float, 2>;

constexpr float kLargest = 0x1p126F;

// Sums of the regular values from 0 up, and of those below.
struct Sides {
  std::array<double, 2> sum = {};
  std::array<uint64_t, 2> count = {};

  void add(const Sides& other) {
    for (size_t side = 0; side < 2; ++side) {
      sum[side] += other.sum[side];
      count[side] += other.count[side];
    }
  }

  // ||x||^2 less the error, of means that are not rounded.
  double kept(Means means) const {
    if (means == Means::one) {
      const double both = sum[0] - sum[1];
      return count[0] + count[1] == 0 ? 0 : both * both / static_cast<double>(count[0] + count[1]);
    }
    double out = 0;
    for (size_t side = 0; side < 2; ++side) {
      if (count[side] > 0) out += sum[side] * sum[side] / static_cast<double>(count[side]);
    }
    return out;
  }

  Levels levels(Means means) const {
    if (means == Means::one) {
      const uint64_t all = count[0] + count[1];
      const auto mean = static_cast<float>(all == 0 ? 0 : (sum[0] - sum[1]) / static_cast<double>(all));
      return {mean, mean == 0 ? 0 : -mean};
    }
    Levels out = {};
    for (size_t side = 0; side < 2; ++side) {
      if (count[side] > 0) out[side] = static_cast<float>(sum[side] / static_cast<double>(count[side]));
    }
    return out;
  }
};

Sides sides_of(std::span<const float> x) {
  std::array<kernels::Sums, 2> sums;
  Sides out;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool regular = (std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF) <= kernels::kMaxRegularBits;
    const size_t side = x[i] < 0 ? 1 : 0;
    sums[side].partial[i % 16] += regular ? static_cast<double>(x[i]) : 0;
    out.count[side] += regular ? 1 : 0;
  }
  for (size_t side = 0; side < 2; ++side) out.sum[side] = sums[side].total();
  return out;
}

// How a chunk falls into pieces that have means of their own: the rows, cut where chunks are.
struct Pieces {
  uint64_t row = 0;  // elements; 0: there are none, the tensor has one pair of means

  uint64_t count(Range range) const {
    if (row == 0 || range.count == 0) return 0;
    return (range.first + range.count - 1) / row - range.first / row + 1;
  }

  // visit(number, first in the chunk, elements) for each.
  template <typename Visit>
  void each(Range range, Visit visit) const {
    uint64_t number = 0;
    for (uint64_t at = 0; at < range.count; ++number) {
      const uint64_t left = row == 0 ? range.count : row - (range.first + at) % row;
      const uint64_t size = std::min(left, range.count - at);
      visit(static_cast<size_t>(number), static_cast<size_t>(at), static_cast<size_t>(size));
      at += size;
    }
  }
};

void put_levels(Means means, const Levels& levels, Bytes& out) {
  put(out, levels[0]);
  if (means == Means::two) put(out, levels[1]);
}

size_t level_size(Means means) { return means == Means::one ? sizeof(float) : 2 * sizeof(float); }

[[noreturn]] void refuse(std::optional<size_t> row, const std::string& why) {
  throw Error(Exit::bad_input, (row ? "row " + std::to_string(*row) + " of the chunk" : "it") + " has " + why);
}

// Of a row of a chunk, or of the tensor. Throws unless they are means of values from 0 up and of values below.
Levels levels_at(Means means, const Bytes& params, std::optional<size_t> row) {
  Levels levels = {};
  const size_t size = level_size(means);
  load_little(params.data() + row.value_or(0) * size, std::span(levels).first(size / sizeof(float)));
  if (means == Means::one && levels[0] != 0) levels[1] = -levels[0];
  const bool right = levels[0] >= 0 && levels[0] <= kLargest && !std::signbit(levels[0]) && levels[1] <= 0 &&
                     levels[1] >= -kLargest && (levels[1] < 0 || !std::signbit(levels[1]));
  if (!right) refuse(row, "a mean of the wrong sign, or beyond 2^126");
  return levels;
}

class MeansDecoder final : public Decoder {
 public:
  // `levels`: as stored, if pieces.row is 0.
  MeansDecoder(Means means, Pieces pieces, Bytes levels) : means_(means), pieces_(pieces), levels_(std::move(levels)) {}

  Bytes stored() const override {
    Bytes out = levels_;
    if (pieces_.row != 0) put_varint(out, pieces_.row);
    return out;
  }

  std::optional<uint64_t> params_size(Range range) const override { return pieces_.count(range) * level_size(means_); }

  StreamShapes streams(const Code&, Range range) const override { return {{2, range.count}}; }

  std::string describe() const override {
    if (pieces_.row != 0) return "rows of " + std::to_string(pieces_.row);
    const Levels levels = levels_at(means_, levels_, {});
    return "means " + number_text(static_cast<double>(levels[0]), 4) + " and " +
           number_text(static_cast<double>(levels[1]), 4);
  }

  void decode(const Code& code, Range range, std::span<float> out) const override {
    const std::vector<uint16_t>& symbols = code.streams[0].symbols;
    pieces_.each(range, [&](size_t number, size_t at, size_t size) {
      const Levels levels = levels_of(code, number);
      uint32_t ones = 0;
      for (size_t i = at; i < at + size; ++i) {
        ones |= symbols[i];
        out[i] = levels[symbols[i]];
      }
      if (ones != 0 && levels[1] == 0) refuse(row_of(number), "a symbol for a mean that there is none of");
    });
    for (const Exception& exception : code.exceptions) {
      require_needed(exception, symbols[static_cast<size_t>(exception.index)] == 0);
    }
    put_back(code.exceptions, out);
  }

  void laws(const Code& code, Range range, std::span<const float> target, std::span<Law> laws) const override {
    pieces_.each(range, [&](size_t number, size_t at, size_t size) {
      const Levels levels = levels_of(code, number);
      for (size_t i = at; i < at + size; ++i) laws[i] = law_of(target[i], levels);
    });
    for (const Exception& exception : code.exceptions) laws[static_cast<size_t>(exception.index)] = Law::at(0);
  }

  static Law law_of(float x, const Levels& levels) {
    return Law::at(static_cast<double>(levels[is_below(x, levels)]) - static_cast<double>(x));
  }

  // The symbol: negative, unless the mean was too small for float32.
  static uint16_t is_below(float x, const Levels& levels) { return x < 0 && levels[1] != 0 ? 1 : 0; }

  const Pieces& pieces() const { return pieces_; }
  Levels levels_of(const Code& code, size_t number) const {
    const std::optional<size_t> row = row_of(number);
    return levels_at(means_, row ? code.params : levels_, row);
  }

 private:
  std::optional<size_t> row_of(size_t number) const {
    if (pieces_.row == 0) return std::nullopt;
    return number;
  }

  Means means_;
  Pieces pieces_;
  Bytes levels_;
};

class MeansEncoder final : public Encoder {
 public:
  MeansEncoder(Means means, const Tensor& tensor, Pieces pieces, Bytes levels, bool has_exceptions,
               const Inputs& inputs)
      : means_(means),
        tensor_(tensor),
        decoder_(means, pieces, std::move(levels)),
        has_exceptions_(has_exceptions),
        chunks_(tensor.size(), inputs) {}

  const Decoder& decoder() const override { return decoder_; }

  void encode(Range range, Code& code, std::span<float> decoded) const override {
    code.params.clear();
    code.exceptions.clear();
    code.streams.resize(1);
    code.streams[0].alphabet = 2;
    std::vector<uint16_t>& symbols = code.streams[0].symbols;
    symbols.resize(static_cast<size_t>(range.count));
    const std::span<const float> x = read(range, code);
    decoder_.pieces().each(range, [&](size_t number, size_t at, size_t size) {
      const Levels levels = levels_of(x.subspan(at, size), at, code, number);
      for (size_t i = at; i < at + size; ++i) symbols[i] = MeansDecoder::is_below(x[i], levels);
      if (decoded.empty()) return;
      for (size_t i = at; i < at + size; ++i) decoded[i] = levels[symbols[i]];
    });
    if (!decoded.empty()) put_back(code.exceptions, decoded);
  }

  Promise promise() const override {
    double error = 0, kept = 0, norm2 = 0, largest = 0;
    bool subnormal = false;  // some mean is, whose rounding may be as large as itself
    Sides whole;
    Code code;
    for (uint64_t i = 0; i < chunks_.count(); ++i) {
      code.params.clear();
      code.exceptions.clear();
      const std::span<const float> x = read(chunks_[i], code);
      auto next = code.exceptions.cbegin();
      decoder_.pieces().each(chunks_[i], [&](size_t number, size_t at, size_t size) {
        const std::span<const float> values = x.subspan(at, size);
        const Levels levels = levels_of(values, at, code, number);
        for (const float level : levels) subnormal |= level != 0 && std::fabs(level) < 0x1p-126F;
        for (size_t j = 0; j < size; ++j) {
          if (next != code.exceptions.end() && next->index == at + j) {  // kept: no error
            ++next;
            continue;
          }
          const auto value = static_cast<double>(values[j]);
          const double e = MeansDecoder::law_of(values[j], levels).lo;
          error += e * e;
          largest = std::max(largest, std::fabs(e));
          norm2 += value * value;
        }
        const Sides sides = sides_in(values, at, code);
        whole.add(sides);
        kept += sides.kept(means_);
      });
    }
    if (decoder_.pieces().row == 0) kept = whole.kept(means_);
    Promise promise;
    promise.independent = promise.projection = true;
    promise.variance = error;
    promise.max_error = largest;
    if (norm2 > 0 && !subnormal) promise.delta = kept / norm2 * (1 - 0x1p-20);
    return promise;
  }

 private:
  // Of a piece that begins at `at` in the chunk: what the chunk sets aside is 0 there, and counts in no mean.
  static Sides sides_in(std::span<const float> values, size_t at, const Code& code) {
    Sides sides = sides_of(values);
    const auto first_from = [&](uint64_t index) {
      return std::lower_bound(code.exceptions.begin(), code.exceptions.end(), index,
                              [](const Exception& exception, uint64_t least) { return exception.index < least; });
    };
    sides.count[0] -= static_cast<uint64_t>(first_from(at + values.size()) - first_from(at));
    return sides;
  }

  // Those of a piece, stored in `code` where rows have their own.
  Levels levels_of(std::span<const float> values, size_t at, Code& code, size_t number) const {
    if (decoder_.pieces().row != 0) put_levels(means_, sides_in(values, at, code).levels(means_), code.params);
    return decoder_.levels_of(code, number);
  }

  std::span<const float> read(Range range, Code& code) const {
    return read_regular(tensor_, range, has_exceptions_, code);
  }

  Means means_;
  const Tensor& tensor_;
  MeansDecoder decoder_;
  bool has_exceptions_;
  Chunks chunks_;
};

}  // namespace

std::unique_ptr<Encoder> prepare_means(Means means, const Tensor& tensor, const Params& params, const Inputs& inputs) {
  const Extent extent = scan_extent(tensor, inputs);
  Pieces pieces;
  Bytes levels;
  if (choice_of(params, "axis") == "row") {
    pieces.row = std::max<uint64_t>(1, tensor.shape().empty() ? 1 : tensor.shape().back());
  } else {
    Sides sides;
    scan_chunks(
        tensor, inputs, [](Range, std::span<const float> x) { return sides_of(x); },
        [&](const Sides& chunk) { sides.add(chunk); });
    put_levels(means, sides.levels(means), levels);
  }
  return std::make_unique<MeansEncoder>(means, tensor, pieces, std::move(levels), extent.irregular > 0, inputs);
}

std::unique_ptr<Decoder> restore_means(Means means, const Params& params, ByteReader& stored, const Inputs& inputs) {
  Pieces pieces;
  Bytes levels;
  if (choice_of(params, "axis") == "row") {
    pieces.row = stored.get_varint();
    if (pieces.row == 0) stored.fail("says rows of no elements");
    if (inputs.stage == kFirstStage && inputs.size % pieces.row != 0) {
      stored.fail("says rows of " + std::to_string(pieces.row) + ", which " + std::to_string(inputs.size) +
                  " elements are not made of");
    }
  } else {
    const ByteView view = stored.get_bytes(level_size(means));
    levels.assign(view.begin(), view.end());
    levels_at(means, levels, {});  // throws
  }
  return std::make_unique<MeansDecoder>(means, pieces, std::move(levels));
}

}  // namespace gradcodec
