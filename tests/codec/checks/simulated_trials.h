// Messages whose errors are drawn from given laws, and then bent if wished.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "codec/checks/error_check.h"
#include "codec/kernels/kernels.h"

namespace gradcodec {

class SimulatedTrials final : public Trials {
 public:
  // `bend` makes the error of element i from the one that its law gives.
  using Bend = std::function<double(size_t i, double error)>;

  SimulatedTrials(std::vector<float> target, std::vector<Law> laws, uint64_t count, uint64_t seed, Bend bend = {})
      : target_(std::move(target)), laws_(std::move(laws)), count_(count), seed_(seed), bend_(std::move(bend)) {}

  uint64_t size() const override { return target_.size(); }
  uint64_t chunk_len() const override { return uint64_t{1} << 18; }
  uint64_t count() const override { return count_; }

  void load(uint64_t trial, Range, bool, Sample& sample) const override {
    sample.same_laws = !sample.fresh;
    if (sample.fresh) {
      sample.target = target_;
      sample.laws = laws_;
      sample.fresh = false;
    }
    std::vector<uint32_t> words(target_.size());
    const kernels::Draws draws = {
        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)}, static_cast<uint32_t>(trial), 0};
    kernels::philox_words(draws, 0, words.size(), words.data());
    sample.decoded.resize(target_.size());
    for (size_t i = 0; i < target_.size(); ++i) {
      const double u = (static_cast<double>(words[i]) + 0.5) * 0x1p-32;
      const Law& law = laws_[i];
      double error = law.lo;
      if (law.kind == Law::uniform) error += u * (law.hi - law.lo);
      if (law.kind == Law::two && u < law.f) error = law.hi;
      if (bend_) error = bend_(i, error);
      sample.decoded[i] = static_cast<float>(static_cast<double>(target_[i]) + error);
    }
  }

 private:
  std::vector<float> target_;
  std::vector<Law> laws_;
  uint64_t count_, seed_;
  Bend bend_;
};

// All findings, by one thread.
inline TensorFindings findings_of(const Trials& trials, const CheckOptions& options) {
  ErrorCheck check(trials, nullptr, options);
  ErrorCheck::Room room;
  for (uint64_t chunk = 0; chunk < trials.chunks(); ++chunk) check.take(check.survey(chunk, room));
  for (uint64_t chunk = 0; chunk < trials.chunks(); ++chunk) check.take(check.measure(chunk, room, [] {}));
  return check.findings();
}

inline const Finding& finding(const TensorFindings& tensor, std::string_view name) {
  const auto found = std::find_if(tensor.findings.begin(), tensor.findings.end(),
                                  [&](const Finding& candidate) { return candidate.name == name; });
  if (found == tensor.findings.end()) throw std::logic_error("no finding " + std::string(name));
  return *found;
}

}  // namespace gradcodec
