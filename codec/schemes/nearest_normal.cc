// SPDX-License-Identifier: Apache-2.0
#include "codec/schemes/nearest_normal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "codec/buckets.h"
#include "codec/levels/normal.h"

namespace gradcodec {
namespace {

constexpr float kMinScale = 0x1p-126F, kMaxScale = 0x1p126F;
constexpr size_t kMostLevels = size_t{1} << normal::kMaxBits;

bool is_scale(float scale) { return scale == 0 ? !std::signbit(scale) : scale >= kMinScale && scale <= kMaxScale; }

// The symbol of the smallest positive centroid, which zeros have.
uint16_t rest_symbol(unsigned bits) { return static_cast<uint16_t>(1U << (bits - 1)); }

float scale_at(const Bytes& params, uint64_t bucket) {
  return load_little<float>(params.data() + bucket * sizeof(float));
}

// The decoded values of the symbols: float32(scale c), by one multiplication each.
std::array<float, kMostLevels> table_of(float scale, unsigned bits) {
  const std::span<const float> centroids = normal::centroids(bits);
  const size_t half = centroids.size();
  std::array<float, kMostLevels> table = {};
  for (size_t i = 0; i < half; ++i) {
    table[half + i] = scale * centroids[i];
    table[half - 1 - i] = -table[half + i];
  }
  return table;
}

template <size_t kHalf>
void count_thresholds(std::span<const float> y, const std::array<float, kMostLevels>& thresholds,
                      std::span<uint16_t> symbols) {
  for (size_t i = 0; i < y.size(); ++i) {
    const float magnitude = std::fabs(y[i]);
    int32_t above = 0;
    for (size_t j = 0; j + 1 < kHalf; ++j) above += magnitude > thresholds[j] ? 1 : 0;
    const auto half = static_cast<int32_t>(kHalf);
    symbols[i] = static_cast<uint16_t>(y[i] >= 0 ? half + above : half - 1 - above);
  }
}

// Sixteen sums as kernels::Sums has them.
double inner_product(std::span<const float> a, std::span<const float> b) {
  kernels::Sums sums;
  const size_t whole = a.size() - a.size() % 16;
  for (size_t i = 0; i < whole; i += 16) {
    for (size_t j = 0; j < 16; ++j) {
      sums.partial[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
    }
  }
  for (size_t i = whole; i < a.size(); ++i) {
    sums.partial[i - whole] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sums.total();
}

// Sums over a bucket and its centroids q.
struct Products {
  double qy, qq;
};

Products products_of(std::span<const float> y, std::span<const uint16_t> symbols, unsigned bits) {
  constexpr size_t kRun = 256;  // a multiple of 16
  const std::array<float, kMostLevels> centroids = table_of(1, bits);
  std::array<float, kRun> q;
  Products products = {0, 0};
  for (size_t at = 0; at < y.size(); at += kRun) {
    const size_t len = std::min(kRun, y.size() - at);
    kernels::levels_decode(symbols.data() + at, len, centroids.data(), q.data());
    const std::span<const float> run = std::span(q).first(len);
    products.qy += inner_product(run, y.subspan(at, len));
    products.qq += inner_product(run, run);
  }
  return products;
}

// Law of the error of a value: there is one, which the rule says.
void laws_of_bucket(std::span<const float> y, float scale, unsigned bits, std::span<Law> laws) {
  const double squares = squares_of(y);
  std::vector<uint16_t> symbols(y.size(), rest_symbol(bits));
  if (scale != 0 && squares > 0) {
    nearest_centroids(y, std::sqrt(squares / static_cast<double>(y.size())), bits, symbols);
  }
  const std::array<float, kMostLevels> table = table_of(scale, bits);
  for (size_t i = 0; i < y.size(); ++i) {
    laws[i] = Law::at(static_cast<double>(table[symbols[i]]) - static_cast<double>(y[i]));
  }
}

}  // namespace

void nearest_centroids(std::span<const float> y, double sigma, unsigned bits, std::span<uint16_t> symbols) {
  const std::span<const float> centroids = normal::centroids(bits);
  std::array<float, kMostLevels> thresholds = {};
  for (size_t j = 0; j + 1 < centroids.size(); ++j) {
    const double middle = (static_cast<double>(centroids[j]) + static_cast<double>(centroids[j + 1])) / 2;
    thresholds[j] = static_cast<float>(middle * sigma);
  }
  switch (bits) {
    case 1:
      return count_thresholds<1>(y, thresholds, symbols);
    case 2:
      return count_thresholds<2>(y, thresholds, symbols);
    case 3:
      return count_thresholds<4>(y, thresholds, symbols);
    default:
      return count_thresholds<8>(y, thresholds, symbols);
  }
}

float fit_bucket(std::span<const float> y, unsigned bits, NormalScale kind, std::span<uint16_t> symbols) {
  std::fill(symbols.begin(), symbols.end(), rest_symbol(bits));
  const double squares = squares_of(y);
  if (squares == 0) return 0;
  nearest_centroids(y, std::sqrt(squares / static_cast<double>(y.size())), bits, symbols);
  // <q, y> > 0: a centroid has the sign of its value.
  const Products products = products_of(y, symbols, bits);
  const double scale = kind == NormalScale::unbiased ? squares / products.qy : products.qy / products.qq;
  const auto stored = static_cast<float>(std::min(scale, static_cast<double>(kMaxScale)));
  if (stored >= kMinScale) return stored;
  std::fill(symbols.begin(), symbols.end(), rest_symbol(bits));
  return 0;
}

std::optional<uint64_t> NearestNormalDecoder::params_size(Range range) const {
  return bucket_count(range.count, layout_.bucket) * sizeof(float);
}

std::string NearestNormalDecoder::describe() const {
  return std::to_string(1U << layout_.bits) + " centroids, a scale a block";
}

void NearestNormalDecoder::decode(const Code& code, Range range, std::span<float> out) const {
  if (!code.exceptions.empty()) throw Error(Exit::bad_input, "a rotated value is an exception without need");
  const std::vector<uint16_t>& symbols = code.streams[0].symbols;
  for_each_bucket(range.count, layout_.bucket, [&](uint64_t bucket, size_t at, size_t count) {
    const float scale = scale_at(code.params, bucket);
    if (!is_scale(scale)) refuse_block(bucket, "a scale that is not 0 or from 2^-126 to 2^126");
    const uint16_t* first = symbols.data() + at;
    const auto is_rest = [&](uint16_t symbol) { return symbol == rest_symbol(layout_.bits); };
    if (scale == 0 && !std::all_of(first, first + count, is_rest)) {
      refuse_block(bucket, "a symbol that is not that of 0 where the scale is 0");
    }
    const std::array<float, kMostLevels> table = table_of(scale, layout_.bits);
    kernels::levels_decode(first, count, table.data(), out.data() + at);
  });
}

void NearestNormalDecoder::laws(const Code& code, Range range, std::span<const float> target,
                                std::span<Law> laws) const {
  for_each_bucket(range.count, layout_.bucket, [&](uint64_t bucket, size_t at, size_t count) {
    laws_of_bucket(target.subspan(at, count), scale_at(code.params, bucket), layout_.bits, laws.subspan(at, count));
  });
}

void NearestNormalEncoder::encode(Range range, Code& code, std::span<float> decoded) const {
  const NormalLayout& layout = decoder_.layout();
  const auto len = static_cast<size_t>(range.count);
  code.params.clear();
  code.exceptions.clear();
  code.streams.resize(1);
  code.streams[0].alphabet = 1U << layout.bits;
  code.streams[0].symbols.resize(len);
  code.scratch.resize(std::max(code.scratch.size(), len));
  const std::span<const float> y = tensor_.read(range, std::span(code.scratch).first(len));
  const std::span<uint16_t> symbols = code.streams[0].symbols;
  for_each_bucket(range.count, layout.bucket, [&](uint64_t, size_t at, size_t count) {
    const float scale = fit_bucket(y.subspan(at, count), layout.bits, kind_, symbols.subspan(at, count));
    put(code.params, scale);
    if (decoded.empty()) return;
    const std::array<float, kMostLevels> table = table_of(scale, layout.bits);
    kernels::levels_decode(symbols.data() + at, count, table.data(), decoded.data() + at);
  });
}

// Below a rotation by independent signs, y / sigma is for every value z = sum of terms of either sign whose squares add
// up to 1, whatever the block was. The error of the least squares scale is at most that of any other scale for the same
// symbols.
//
// One bit: of the scale c sigma that is best, ||y||^2 - ||y||_1^2 / n, and E |z| >= 1 / sqrt(2) (Szarek, "On the best
// constants in the Khinchin inequality", 1976). More: of the scale sigma, so the expected error over sigma^2 is at most
// E f(z), f the squared distance to the nearest centroid. E z^2 = 1 and E z^(2k) <= (2k - 1)!!, the moments of the
// normal law, term by term; so each polynomial in z^2 that is nowhere below f, with positive coefficients from z^4 on,
// gives a bound: .3065, .0968, .0276. tests/codec/schemes/nearest_normal_test.cc has the polynomials.
Promise NearestNormalEncoder::promise() const {
  constexpr std::array kDelta = {0.5 - 0x1p-20, 0.69, 0.90, 0.97};
  Promise promise;
  // What is too small for a scale decodes to 0: then little is left to promise.
  const bool tiny = has_tiny_bucket(tensor_, chunks_, decoder_.layout().bucket);
  if (kind_ == NormalScale::least_squares) promise.delta = tiny ? 0 : kDelta[decoder_.layout().bits - 1];
  // The scale and each of its products with a centroid are rounded, by 2^-24 of themselves.
  if (kind_ == NormalScale::unbiased) promise.inner_product = tiny ? 1 : 0x1p-22;
  return promise;
}

}  // namespace gradcodec
