// SPDX-License-Identifier: Apache-2.0
#include "codec/binomial.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "codec/error.h"

namespace gradcodec {
namespace {

// An integer of any length, the lowest 32 bits first; no leading zero but in `fixed` width.
using Big = std::vector<uint32_t>;

void multiply(Big& x, uint32_t factor) {
  uint64_t carry = 0;
  for (uint32_t& digit : x) {
    carry += uint64_t{digit} * factor;
    digit = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  if (carry != 0) x.push_back(static_cast<uint32_t>(carry));
}

// By a divisor that leaves no remainder.
void divide(Big& x, uint32_t divisor) {
  uint64_t rest = 0;
  for (size_t i = x.size(); i-- > 0;) {
    rest = rest << 32 | x[i];
    x[i] = static_cast<uint32_t>(rest / divisor);
    rest %= divisor;
  }
  while (x.size() > 1 && x.back() == 0) x.pop_back();
}

void add(Big& to, const Big& x) {
  uint64_t carry = 0;
  for (size_t i = 0; i < to.size() && (i < x.size() || carry != 0); ++i) {
    carry += uint64_t{to[i]} + (i < x.size() ? x[i] : 0);
    to[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
}

bool is_less(const Big& a, const Big& b) {
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

// The numerators of F(0), F(1), ..: sums of binomial coefficients, with `digits` binary digits after the point.
class Numerators {
 public:
  explicit Numerators(uint32_t trials) : trials_(trials), digits_(std::max(64U, (trials + 31) / 32 * 32)) {
    sum_.assign(digits_ / 32 + 1, 0);  // F(m) is 1
    term_.assign((digits_ - trials) / 32 + 1, 0);
    term_.back() = 1U << (digits_ - trials) % 32;
    add(sum_, term_);
  }

  // A multiple of 32, at least 64 and at least m.
  uint32_t digits() const { return digits_; }
  const Big& sum() const { return sum_; }

  // From F(k - 1) to F(k), for k = 1, 2, ..
  void advance(uint32_t k) {
    multiply(term_, trials_ - k + 1);
    divide(term_, k);
    add(sum_, term_);
  }

  uint64_t first_64() const {
    const size_t top = digits_ / 32 - 1;
    return uint64_t{sum_[top]} << 32 | sum_[top - 1];
  }

  bool has_more_than_64() const {
    return std::any_of(sum_.begin(), sum_.begin() + static_cast<ptrdiff_t>(digits_ / 32 - 2),
                       [](uint32_t digit) { return digit != 0; });
  }

 private:
  uint32_t trials_, digits_;
  Big sum_, term_;
};

}  // namespace

// The upper half follows from the lower: F(m - 1 - k) = 1 - F(k).
BinomialTable::BinomialTable(uint32_t trials) : trials_(trials) {
  if (trials == 0 || trials > kMaxBinomial) throw Error(Exit::bug, "a table of Bin(" + std::to_string(trials) + ")");
  std::vector<uint64_t> all(trials);
  Numerators f(trials);
  for (uint32_t k = 0; k <= (trials - 1) / 2; ++k) {
    if (k > 0) f.advance(k);
    const uint64_t digits = f.first_64();
    all[trials - 1 - k] = uint64_t{0} - digits - (f.has_more_than_64() ? 1 : 0);
    all[k] = digits;
  }
  while (first_ < trials && all[first_] == 0) ++first_;
  size_t last = first_;
  while (last < trials && all[last] != ~uint64_t{0}) ++last;
  thresholds_.assign(all.begin() + first_, all.begin() + static_cast<ptrdiff_t>(std::min<size_t>(last + 1, trials)));
  make_guide();
}

void BinomialTable::make_guide() {
  guide_.resize(size_t{1} << (64 - kGuideShift));
  uint32_t below = 0;
  for (size_t i = 0; i < guide_.size(); ++i) {
    const uint64_t word = uint64_t{i} << kGuideShift;
    while (below < thresholds_.size() && thresholds_[below] <= word) ++below;
    guide_[i] = below;
  }
}

std::shared_ptr<const BinomialTable> BinomialTable::of(uint32_t trials) {
  static std::mutex mutex;
  static std::map<uint32_t, std::shared_ptr<const BinomialTable>> known;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const BinomialTable>& table = known[trials];
  if (!table) table = std::make_shared<const BinomialTable>(trials);
  return table;
}

// All digits of U against those of each F(k).
uint32_t BinomialTable::decide(uint64_t word, const std::function<uint32_t()>& more) const {
  Numerators f(trials_);
  Big u(f.digits() / 32 + 1, 0);
  size_t i = f.digits() / 32 - 1;
  u[i] = static_cast<uint32_t>(word >> 32);
  u[--i] = static_cast<uint32_t>(word);
  while (i > 0) u[--i] = more();
  uint32_t k = 0;
  while (k < trials_ && !is_less(u, f.sum())) {
    ++k;
    f.advance(k);
  }
  return k;
}

}  // namespace gradcodec
