// The errors of one chunk of one message beside what their laws say of them, as arrays that the sums run over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codec/checks/trials.h"

namespace gradcodec {

// Sums over the laws of a chunk: what one message with these laws adds.
struct LawSums {
  uint64_t points = 0, twos = 0, uniforms = 0, subsets = 0, sums = 0, cells = 0, outside = 0, unknown = 0;  // by law
  std::optional<uint64_t> first_outside;  // index in the tensor
  double norm2 = 0;                       // sum of target^2
  double outside_norm2 = 0;               // of the elements outside
  double variance = 0;                    // V: sum of sigma^2
  double quartic = 0;                     // V4: sum of sigma^4
  double penalty = 0;                     // sum of sigma^2 times the sigma^2 of inequalities: V4, but for `subset`
  double bias2 = 0;                       // sum of (expected - target)^2
  double eta2 = 0;                        // sum of eta^2
  double largest_variance = 0;            // sigma^2
  double largest_tail = 0;                // the sigma^2 of inequalities
  double largest_error = 0;               // |decoded - target|
  double largest_shift = 0;               // that a mean may have, in steps
  double largest_part = 0;                // f of a `subset`
  uint64_t longest_vector = 1;            // elements from the first to the last of a lattice vector

  // All elements that have a law, or should: those of the domain, in which a transform may have put zeros.
  uint64_t size() const { return points + chance() + outside + unknown; }
  // Elements whose error is left to chance, as a law says.
  uint64_t chance() const { return twos + uniforms + subsets + sums + cells; }
  // Whether chance is uniform wherever there is any.
  bool uniform() const { return uniforms == chance(); }

  void add(const LawSums& other);  // another chunk of the same tensor
};

// A part of a chunk small enough for what is computed of it to stay in the cache.
struct Block {
  size_t first = 0, count = 0;
};

template <typename Visit>
void for_each_block(size_t size, Visit visit) {
  constexpr size_t kLength = 1024;
  for (size_t first = 0; first < size; first += kLength) visit(Block{first, std::min(kLength, size - first)});
}

class ErrorView {
 public:
  // Before the first load of another chunk or tensor. In a tensor that has an element of another law of chance than
  // `uniform` (`dither` is false), z, its variance and its slack are the error's. In all others z is the recovered
  // dither, (decoded / step) mod 1 in [-1/2, 1/2], of variance 1/12, which repeats exactly where the random numbers do,
  // whatever the values are.
  void begin(bool dither);

  // Loads a trial of one chunk; the arrays below are of it once `compute` was called for all of it. Elements whose law
  // does not reach them have error, step, variance and eta 0; those whose law is unknown have an error, and 0 else.
  void load(const Trials& trials, uint64_t trial, Range range, bool whole_path);
  void compute(Block block);

  size_t size() const { return error.size(); }
  bool new_laws() const { return new_laws_; }
  const LawSums& sums() const { return sums_; }
  bool dither() const { return dither_; }
  const Sample& sample() const { return sample_; }
  Law::Kind kind(size_t i) const { return sample_.laws[i].kind; }

  // The first element of the block whose error is not among those that its law allows, eta apart; of a lattice vector,
  // that ends in the block, its last.
  std::optional<size_t> first_beyond_support(Block block) const;

  // From the first to the last element of each lattice vector; what lies between and is of another law is not of it.
  const std::vector<Block>& vectors() const { return vectors_; }
  // The length of its error, and what eta may add.
  struct Length {
    double error = 0, eta = 0;
  };
  Length length_of(Block vector) const;

  std::vector<double> error;     // decoded - expected; the law's mean is subtracted
  std::vector<double> step;      // s: no term is more than that above its mean; 0 for a point
  std::vector<double> variance;  // sigma^2
  std::vector<double> tail;      // sigma^2 as inequalities have it
  std::vector<double> eta;
  std::vector<double> inverse_step;  // 0 for a point
  std::vector<double> z, z_variance, z_slack;

 private:
  void refresh(Range range);
  void set_law(size_t i, const Law& law);
  void find_vectors();
  void add_to_sums(size_t i, Range range);
  bool any_beyond(Block block) const;
  bool inside(size_t i) const;

  Sample sample_;
  LawSums sums_;
  bool dither_ = false, new_laws_ = false;
  std::vector<double> expected_;
  std::vector<Block> vectors_;
  std::vector<uint32_t> special_;  // elements without chance, in order
  size_t next_special_ = 0;        // first that compute has not reached
};

}  // namespace gradcodec
