// Sums of many numbers that lose next to nothing to rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gradcodec {

// A sum in two float64: what an addition rounds away is kept beside it (Knuth's two-sum; Ogita, Rump and Oishi 2005,
// "Accurate sum and dot product", algorithm 4.4). NaN once the sum passes float64.
class Sum {
 public:
  void add(double x) {
    const double sum = high_ + x;
    const double part = sum - high_;
    low_ += (high_ - (sum - part)) + (x - part);
    high_ = sum;
  }
  void merge(const Sum& other) {
    add(other.high_);
    low_ += other.low_;
  }
  double value() const { return high_ + low_; }

 private:
  double high_ = 0, low_ = 0;
};

}  // namespace gradcodec
