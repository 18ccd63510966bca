// SPDX-License-Identifier: Apache-2.0
#include "codec/checks/reconstruction.h"

#include <algorithm>
#include <cmath>

namespace gradcodec {
namespace {

// Squares of magnitudes within these, and sums of 2^63 of them, are far from the ends of float64.
constexpr double kTooSmall = 0x1p-480, kTooLarge = 0x1p480;

bool in_range(double magnitude) { return magnitude == 0 || (magnitude > kTooSmall && magnitude < kTooLarge); }

bool same_nonfinite(double x, double decoded) { return x == decoded || (std::isnan(x) && std::isnan(decoded)); }

}  // namespace

void ReconstructionSums::add(std::span<const double> x, std::span<const double> decoded, uint64_t part,
                             uint64_t first) {
  double errors = 0, squares = 0, decoded_squares = 0, products = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(decoded[i])) {
      ++nonfinite_;
      nonfinite_changed_ += same_nonfinite(x[i], decoded[i]) ? 0 : 1;
      continue;
    }
    ++compared_;
    const double error = decoded[i] - x[i];
    errors += error * error;
    squares += x[i] * x[i];
    decoded_squares += decoded[i] * decoded[i];
    products += error * x[i];
    min_ = std::min(min_, x[i]);
    max_ = std::max(max_, x[i]);
    max_decoded_ = std::max(max_decoded_, std::fabs(decoded[i]));
    if (std::fabs(error) > max_error_) {
      max_error_ = std::fabs(error);
      max_part_ = part;
      max_index_ = first + i;
    }
  }
  errors_.add(errors);
  squares_.add(squares);
  decoded_squares_.add(decoded_squares);
  products_.add(products);
}

void ReconstructionSums::merge(const ReconstructionSums& other) {
  compared_ += other.compared_;
  nonfinite_ += other.nonfinite_;
  nonfinite_changed_ += other.nonfinite_changed_;
  errors_.merge(other.errors_);
  squares_.merge(other.squares_);
  decoded_squares_.merge(other.decoded_squares_);
  products_.merge(other.products_);
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  max_decoded_ = std::max(max_decoded_, other.max_decoded_);
  if (other.max_error_ > max_error_) {
    max_error_ = other.max_error_;
    max_part_ = other.max_part_;
    max_index_ = other.max_index_;
  }
}

Reconstruction ReconstructionSums::result() const {
  Reconstruction out;
  out.compared = compared_;
  out.nonfinite = nonfinite_;
  out.nonfinite_changed = nonfinite_changed_;
  if (compared_ == 0) return out;
  if (std::isfinite(max_error_)) {
    out.max_error = max_error_;
    out.max_part = max_part_;
    out.max_index = max_index_;
  }
  const double largest = std::max(std::fabs(min_), std::fabs(max_));
  if (!in_range(largest) || !in_range(max_decoded_)) return out;
  const double errors = errors_.value(), squares = squares_.value(), decoded = decoded_squares_.value();
  if (squares > 0) {
    out.nmse = errors / squares;
    out.bias = products_.value() / squares;
    // <x', x> = <x' - x, x> + <x, x>, the difference being the part that is small.
    if (decoded > 0) out.cosine = (products_.value() + squares) / (std::sqrt(decoded) * std::sqrt(squares));
  }
  const double rmse = std::sqrt(errors / static_cast<double>(compared_));
  if (rmse > 0 && max_ > min_) out.psnr = 20 * std::log10((max_ - min_) / rmse);
  return out;
}

}  // namespace gradcodec
