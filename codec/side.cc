// SPDX-License-Identifier: Apache-2.0
#include "codec/side.h"

#include <bit>
#include <cmath>

#include "codec/kernels/kernels.h"

namespace gradcodec {
namespace {

// Of a step, by which rounding to the fine lattice may err: float32(alpha x) may be 2^-24 of up to 32,767 steps off; a
// float32 quotient, which is taken for at most 127 steps, as much of those.
constexpr double kGrain = 0x1p-16, kScaledGrain = 0x1p-8;

}  // namespace

double SideNeed::limit() const {
  return (static_cast<double>(rho) - 1 - (is_exact ? kGrain : kScaledGrain)) * step / (2 * alpha);
}

bool SideNeed::is_right(double x, double y, double decoded) const {
  const double rounding = 0x1p-23 * (std::fabs(x) + std::fabs(y));
  return std::fabs(decoded - x - shift() * (x - y)) <= cell() + rounding;
}

double SideNeed::rho_for(double distance) const {
  return std::ceil(2 * alpha * distance / step + 1 + (is_exact ? kGrain : kScaledGrain));
}

float side_value(float y) { return (std::bit_cast<uint32_t>(y) & 0x7FFFFFFF) <= kernels::kMaxRegularBits ? y : 0; }

}  // namespace gradcodec
