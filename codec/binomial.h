// Bin(m, 1/2) by inversion, exactly: each number has its probability, C(m, z) 2^-m, to the last bit.
//
// U is uniform on [0, 1), its binary digits random; Z is the number of k in 0 .. m - 1 with U >= F(k), F the
// distribution function. F(k) has m digits, of which a table has the first 64, computed with integers of any length.
// The first 64 digits of U decide unless they are those of some F(k), which has a probability below m 2^-64; then all m
// digits are drawn and compared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gradcodec {

inline constexpr uint32_t kMaxBinomial = 65535;

class BinomialTable {
 public:
  // `trials`: m, from 1 to kMaxBinomial. Takes time of order m^2: a third of a second for the largest.
  explicit BinomialTable(uint32_t trials);

  // The same for everyone who asks for that m; made once, and kept: at most 40 KiB. Thread-safe.
  static std::shared_ptr<const BinomialTable> of(uint32_t trials);

  uint32_t trials() const { return trials_; }

  // The first 64 digits of F(k), k < m.
  uint64_t first_digits(uint32_t k) const {
    if (k < first_) return 0;
    return k - first_ < thresholds_.size() ? thresholds_[k - first_] : ~uint64_t{0};
  }

  // Z from the first 64 digits of U; `more` gives the digits that follow, 32 a call, and is rarely called.
  template <typename More>
  uint32_t sample(uint64_t word, const More& more) const {
    size_t i = guide_[static_cast<size_t>(word >> kGuideShift)];
    while (i < thresholds_.size() && word >= thresholds_[i]) ++i;
    const bool undecided = i > 0 ? word == thresholds_[i - 1] : word == 0 && first_ > 0;
    if (undecided) [[unlikely]]
      return decide(word, more);
    return first_ + static_cast<uint32_t>(i);
  }

 private:
  static constexpr unsigned kGuideShift = 64 - 12;

  uint32_t decide(uint64_t word, const std::function<uint32_t()>& more) const;
  void make_guide();

  uint32_t trials_;
  uint32_t first_ = 0;                // the k of the first threshold: below it the 64 digits are 0
  std::vector<uint64_t> thresholds_;  // the first 64 digits of F(k), up to the first of only ones
  std::vector<uint32_t> guide_;       // for each 12 first digits, a number of thresholds that are not above
};

}  // namespace gradcodec
