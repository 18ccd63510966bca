// How near side information is to the values that a decoder needs it for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/scheme.h"
#include "codec/side.h"

namespace gradcodec {

// Of elements that are no exceptions. Distances are |x - y|, in limits (SideNeed::limit) of their tensor: beyond 1 a
// value may be decoded wrongly, by the draw. Does not depend on the order of what is added.
class SideFit {
 public:
  // A chunk: its values, its side information, and what was decoded from it.
  void add(const SideNeed& need, std::span<const float> x, std::span<const float> y, std::span<const float> decoded,
           std::span<const Exception> exceptions);
  void merge(const SideFit& other);

  uint64_t size() const { return size_; }
  uint64_t beyond() const { return beyond_; }  // of the limit
  uint64_t wrong() const { return wrong_; }    // decoded as another value than was encoded
  double largest() const { return largest_; }  // distance, in limits

  // The distance, in limits, that a share `p` of the elements keep; up to 1/64 of it more. 0 if there are none.
  double quantile(double p) const;

  // Settings whose limit no element is beyond: rho at the same fine step; the range, over the present one, at the same
  // fine and coarse.
  double least_rho() const { return least_rho_; }
  double least_range() const { return largest_; }

  // The present ones: rho, and the range beside which `coarse` is 1; 0 if all values are 0.
  double rho() const { return rho_; }
  double range() const { return range_; }
  double alpha() const { return alpha_; }

 private:
  void set_range(double coarse_step, double largest_value);

  uint64_t size_ = 0, beyond_ = 0, wrong_ = 0;
  double largest_ = 0, least_rho_ = 2, rho_ = 0, range_ = 0, alpha_ = 1;
  double coarse_step_ = 0, largest_value_ = 0;  // of the tensor that range_ is of
  std::vector<uint64_t> counts_;                // by the upper bits of the distance as float32; empty: none
};

}  // namespace gradcodec
