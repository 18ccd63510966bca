// Errors drawn as laws of any kind say, for tests of what holds them to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "codec/checks/trials.h"
#include "codec/kernels/kernels.h"

namespace gradcodec {

// One of decoded - target for each law. Cells are regular hexagons (A2), of any size; noise is of at most 32 trials.
class DrawnErrors {
 public:
  DrawnErrors(std::span<const Law> laws, kernels::Draws draws) : laws_(laws), words_(5 * laws.size() + 8) {
    kernels::philox_words(draws, 0, words_.size(), words_.data());
  }

  std::vector<double> draw() const {
    const std::vector<bool> drawn = subset();
    std::vector<double> out(laws_.size());
    double vector = -1;
    size_t coordinate = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const Law& law = laws_[i];
      const double two = part(i) < law.f ? law.hi : law.lo, s = law.hi - law.lo;
      coordinate = law.kind == Law::cell && law.lo == vector ? coordinate + 1 : 0;
      if (law.kind == Law::cell) vector = law.lo;
      switch (law.kind) {
        case Law::two:
          out[i] = two;
          break;
        case Law::uniform:
          out[i] = law.lo + part(i) * s;
          break;
        case Law::subset:
          out[i] = drawn[i] ? law.hi : law.lo;
          break;
        case Law::sum:
          out[i] = two + s * (std::popcount(words_[laws_.size() + i] >> (32 - law.count)) - law.count / 2.0);
          break;
        case Law::cell:
          out[i] = law.hi * hexagon(static_cast<size_t>(law.lo))[coordinate];
          break;
        default:
          out[i] = law.lo;
      }
    }
    return out;
  }

  // Variance per dimension of a regular hexagon whose corners are at a distance of 1: E ||e||^2 = 5/12.
  static constexpr double kHexagon = 5.0 / 24;

 private:
  double part(size_t i) const { return (static_cast<double>(words_[i]) + 0.5) * 0x1p-32; }

  // It is three rhombs, each between two of three corners.
  std::array<double, 2> hexagon(size_t number) const {
    static const double kSide = std::sqrt(3.0) / 2;
    static const std::array<std::array<double, 2>, 3> corners = {{{1, 0}, {-0.5, kSide}, {-0.5, -kSide}}};
    const size_t at = 2 * laws_.size() + 3 * number;
    const auto rhomb = static_cast<size_t>(3 * part(at));
    const auto &a = corners[rhomb], &b = corners[(rhomb + 1) % 3];
    const double u = part(at + 1), v = part(at + 2);
    return {u * a[0] + v * b[0], u * a[1] + v * b[1]};
  }

  // The elements of the smallest words, as many as f says of all.
  std::vector<bool> subset() const {
    double f = 0;
    for (const Law& law : laws_) f = law.kind == Law::subset ? law.f : f;
    std::vector<size_t> order(laws_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return std::pair(words_[a], a) < std::pair(words_[b], b); });
    std::vector<bool> out(laws_.size(), false);
    const auto count = static_cast<size_t>(std::lround(f * static_cast<double>(laws_.size())));
    for (size_t i = 0; i < count; ++i) out[order[i]] = true;
    return out;
  }

  std::span<const Law> laws_;
  std::vector<uint32_t> words_;
};

// Messages of such errors, which may be bent.
class DrawnTrials final : public Trials {
 public:
  using Bend = std::function<void(std::vector<double>& errors)>;

  DrawnTrials(std::vector<float> target, std::vector<Law> laws, uint64_t count, uint64_t seed, Bend bend = {},
              uint64_t chunk_len = uint64_t{1} << 18)
      : target_(std::move(target)), laws_(std::move(laws)), chunk_len_(chunk_len) {
    for (uint64_t trial = 0; trial < count; ++trial) {
      const kernels::Draws draws = {
          {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, static_cast<uint32_t>(trial), 7};
      errors_.push_back(DrawnErrors(laws_, draws).draw());
      if (bend) bend(errors_.back());
    }
  }

  uint64_t size() const override { return target_.size(); }
  uint64_t chunk_len() const override { return chunk_len_; }
  uint64_t count() const override { return errors_.size(); }

  void load(uint64_t trial, Range range, bool, Sample& sample) const override {
    const auto of_range = [range](const auto& all) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(range.first);
      return std::vector(first, first + static_cast<ptrdiff_t>(range.count));
    };
    sample.same_laws = !sample.fresh;
    if (sample.fresh) {
      sample.target = of_range(target_);
      sample.laws = of_range(laws_);
      sample.fresh = false;
    }
    const std::vector<double> errors = of_range(errors_[static_cast<size_t>(trial)]);
    sample.decoded.resize(errors.size());
    for (size_t i = 0; i < errors.size(); ++i) {
      sample.decoded[i] = static_cast<float>(static_cast<double>(sample.target[i]) + errors[i]);
    }
  }

 private:
  std::vector<float> target_;
  std::vector<Law> laws_;
  std::vector<std::vector<double>> errors_;
  uint64_t chunk_len_;
};

}  // namespace gradcodec
