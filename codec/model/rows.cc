// SPDX-License-Identifier: Apache-2.0
#include "codec/model/rows.h"

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
    const int64_t p = token % 2 == 1 ? upper[k] - upper[k + 1 <= 16 ? k + 1 : 16] : lower[k - 1] - lower[k];
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

}  // namespace

const ModelStarts& model_starts(uint32_t law) {
  static const std::array<ModelStarts, kLaws> tables = {make_starts(0), make_starts(1), make_starts(2), make_starts(3)};
  return tables[law];
}

}  // namespace gradcodec
