// Levels that are fitted to a tensor and stored with it: what `alq` and `amq` have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "codec/levels/law.h"
#include "codec/scheme.h"

namespace gradcodec {

// The s inner levels for a tensor's magnitudes, of which `model` is a model.
using LevelFit = std::vector<double> (*)(const MagnitudeLaw& model, const MagnitudeLaw& tensor, unsigned s);

class AdaptiveLevels : public Scheme {
 public:
  explicit AdaptiveLevels(LevelFit fit) : fit_(fit) {}

  std::span<const ParamSpec> params() const final;
  bool draws() const final { return true; }
  void check(const Params&, bool) const final {}
  std::unique_ptr<Encoder> prepare(const Tensor& tensor, const Params& params, const Inputs& inputs) const final;
  std::unique_ptr<Decoder> restore(const Params& params, ByteReader& stored, const Inputs& inputs) const final;

 private:
  LevelFit fit_;
};

}  // namespace gradcodec
