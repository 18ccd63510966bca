// SPDX-License-Identifier: Apache-2.0
#include "codec/model/rows.h"

#include "codec/rans/code_length.h"

namespace gradcodec {
namespace {

constexpr uint32_t kPoints = 4;                                                  // of a dither's class
constexpr std::array<uint64_t, 4> kInverse = {1048576, 881744, 741455, 623487};  // 2^20 2^(-f/4)
constexpr int64_t kOne = int64_t{1} << 32;                                       // probability 1: sums of kPoints

// Distances of the dither, in units of 2^-24: the middles of four equal parts of the class.
std::array<uint64_t, kPoints> points_of(uint32_t dither_class) {
  std::array<uint64_t, kPoints> points;
  const uint32_t octave = (dither_class + 60) / 4, quarter = dither_class % 4;
  for (uint32_t j = 0; j < kPoints; ++j) {
    points[j] = dither_class == 0 ? 5120 * (2 * j + 1) : uint64_t{8 * (4 + quarter) + 2 * j + 1} << (octave - 5);
  }
  return points;
}

class Tail {
 public:
  Tail(uint32_t law, uint32_t scale_class)
      : table_(kLawTables[law].data()), inverse_(kInverse[scale_class % 4]), shift_(14 + scale_class / 4) {}

  // P(|x| of one sign > distance), the distance in units of 2^-24 steps, in units of 2^-30.
  int64_t above(uint64_t distance) const {
    const uint64_t z = distance * inverse_ >> shift_;  // units of 2^-22 scales
    const uint64_t i = z >> 16, rest = z & 0xFFFF;
    if (i >= kLawPoints - 1) return 0;
    return int64_t{table_[i]} - static_cast<int64_t>((table_[i] - table_[i + 1]) * rest >> 16);
  }

 private:
  const uint32_t* table_;
  uint64_t inverse_;
  uint32_t shift_;
};

// With d the dither's distance and x towards it: q >= k if x > k - 1 + d, and q <= -k if -x > k - d.
void fill_row(const Tail& tail, const std::array<uint64_t, kPoints>& points, uint32_t raw_count, uint16_t* row) {
  std::array<int64_t, 17> upper = {}, lower = {};  // P(v >= k), k from 1; P(v < -k), k from 0
  for (uint64_t k = 0; k <= 16; ++k) {
    const uint64_t edge = k << raw_count;
    for (const uint64_t point : points) {
      if (k > 0) upper[k] += tail.above(((edge - 1) << 24) + point);
      lower[k] += tail.above(((edge + 1) << 24) - point);
    }
  }
  std::array<int64_t, kModelTokens> frequency = {};
  int64_t escaping = upper[16] + lower[15], others = 0;
  for (uint32_t token = 1; token < kModelEscape; ++token) {
    const uint32_t k = (token + 1) / 2;
    const int64_t p = token % 2 == 1 ? upper[k] - upper[k + 1] : lower[k - 1] - lower[k];
    frequency[token] = (p + (kOne >> 16)) >> 17;
    if (frequency[token] == 0) escaping += p;
    others += frequency[token];
  }
  frequency[kModelEscape] = std::max<int64_t>(1, (escaping + (kOne >> 16)) >> 17);
  frequency[0] = (int64_t{1} << kModelPrecision) - others - frequency[kModelEscape];
  int64_t start = 0;
  for (uint32_t token = 0; token < kModelTokens; ++token) {
    row[token] = static_cast<uint16_t>(start);
    start += frequency[token];
  }
}

ModelStarts make_starts(uint32_t law) {
  ModelStarts starts(size_t{kModelRows} * kModelTokens, uint16_t{1} << kModelPrecision);
  for (uint32_t scale = 0; scale < kScaleClasses; ++scale) {
    const Tail tail(law, scale);
    for (uint32_t dither = 0; dither < kernels::kDitherClasses; ++dither) {
      uint16_t* row = starts.data() + (size_t{scale} * kernels::kDitherClasses + dither) * kModelTokens;
      fill_row(tail, points_of(dither), model_raw_count(scale), row);
    }
  }
  for (uint32_t dither = 0; dither < kernels::kDitherClasses; ++dither) {  // q is 0 for certain
    starts[(size_t{kZeroScale} * kernels::kDitherClasses + dither) * kModelTokens] = 0;
  }
  return starts;
}

std::vector<uint32_t> make_infos(uint32_t law) {
  const ModelStarts& starts = model_starts(law);
  std::vector<uint32_t> infos(starts.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    const auto token = static_cast<uint32_t>(i % kModelTokens);
    infos[i] = model_info(starts.data() + (i - token), token);
  }
  return infos;
}

// An even dither is in class b with probability w / 2^23.
uint64_t width_of(uint32_t dither_class) {
  return dither_class == 0 ? 40960 : uint64_t{1} << ((dither_class + 60) / 4 - 2);
}

std::array<uint32_t, kScaleClasses + 1> make_bits() {
  std::array<uint32_t, kScaleClasses + 1> bits = {};
  const ModelStarts& starts = model_starts(0);
  for (uint32_t scale = 0; scale < kScaleClasses; ++scale) {
    uint64_t sum = 0;
    for (uint32_t dither = 0; dither < kernels::kDitherClasses; ++dither) {
      const uint16_t* row = starts.data() + (size_t{scale} * kernels::kDitherClasses + dither) * kModelTokens;
      uint64_t of_row = 0;
      for (uint32_t token = 0; token < kModelTokens; ++token) {
        const uint32_t frequency = model_info(row, token) >> 16;
        if (frequency == 0) continue;
        of_row += frequency * (uint64_t{kModelPrecision << kLengthBits} - fixed_log2(frequency));
      }
      sum += width_of(dither) * (of_row >> kModelPrecision);
    }
    bits[scale] = static_cast<uint32_t>(sum >> 23) + (model_raw_count(scale) << kLengthBits);
  }
  return bits;
}

}  // namespace

uint32_t model_bits(uint32_t scale_class) {
  static const std::array<uint32_t, kScaleClasses + 1> bits = make_bits();
  return bits[scale_class];
}

uint64_t mixed_bits(const std::array<uint64_t, kScaleClasses + 1>& counts) {
  constexpr uint32_t kParts = 16;  // of 2^15, beside
  const ModelStarts& starts = model_starts(0);
  uint64_t total = 0, known = 0;
  for (uint32_t scale = 0; scale <= kZeroScale; ++scale) {
    if (model_raw_count(scale) == 0) total += counts[scale];
    if (model_raw_count(scale) != 0) known += counts[scale] * model_bits(scale);
  }
  if (total == 0) return known;
  uint32_t shift = 0;  // so that no sum passes 2^63
  while (total >> shift >= uint64_t{1} << 32) ++shift;
  const uint64_t parts = total >> shift;
  uint64_t sum = 0;
  for (uint32_t dither = 0; dither < kernels::kDitherClasses; ++dither) {
    std::array<uint64_t, kModelTokens> mixture = {};
    for (uint32_t scale = 0; scale <= kZeroScale; ++scale) {
      if (counts[scale] >> shift == 0 || model_raw_count(scale) != 0) continue;
      const uint16_t* row = starts.data() + (size_t{scale} * kernels::kDitherClasses + dither) * kModelTokens;
      for (uint32_t token = 0; token < kModelTokens; ++token) {
        mixture[token] += (counts[scale] >> shift) * (model_info(row, token) >> 16);
      }
    }
    uint64_t of_dither = 0;
    for (const uint64_t weight : mixture) {
      const uint64_t share = (weight / parts << kParts) + (weight % parts << kParts) / parts;  // of 2^31
      if (share > 0) of_dither += share * ((uint64_t{31} << kLengthBits) - fixed_log2(static_cast<uint32_t>(share)));
    }
    sum += width_of(dither) * (of_dither >> 31);
  }
  return known + total * (sum >> 23);
}

const std::vector<uint32_t>& model_infos(uint32_t law) {
  static const std::array<std::vector<uint32_t>, kLaws> tables = {make_infos(0), make_infos(1), make_infos(2),
                                                                  make_infos(3)};
  return tables[law];
}

const ModelStarts& model_starts(uint32_t law) {
  static const std::array<ModelStarts, kLaws> tables = {make_starts(0), make_starts(1), make_starts(2), make_starts(3)};
  return tables[law];
}

}  // namespace gradcodec
