// Truncated quantizers: where the levels of a tensor are, by its model, the shape that is asked for, and the rule that
// weighs what is cut off against the width of the intervals. spec/schemes/truncated.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "codec/levels/tail.h"

namespace gradcodec {

struct TruncationDesign {
  enum Shape : uint8_t { uniform, nonuniform, two_scales } shape;
  enum Density : uint8_t { laplace, power_law } density;  // two_scales: power_law alone
  enum Rule : uint8_t {
    paper,  // c = 4 and the simplifications of the papers
    mse,    // the same with c = 6
    exact,  // the least error of the model, c = 6
  } rule;
  unsigned bits;  // two_scales: from 2

  unsigned intervals() const { return (1U << bits) - 1; }
};

TruncationDesign::Density density_named(std::string_view name);  // laplace, powerlaw
TruncationDesign::Rule rule_named(std::string_view name);        // paper, mse, exact

// The positive levels of a tensor whose largest magnitude is `max` > 0, ascending, 2^(bits - 1) of them, in the
// tensor's units; the last is at most max. `scale`: the mean magnitude.
std::vector<double> laplace_levels(const TruncationDesign& design, double scale, double max);

// Likewise; equal intervals up to max where there is no tail to fit.
std::vector<double> power_law_levels(const TruncationDesign& design, const std::optional<Tail>& tail, double max);

// Of a tensor with this extent, extent.max > 0: reads it.
std::vector<double> scan_levels(const TruncationDesign& design, const Tensor& tensor, const Inputs& inputs,
                                const Extent& extent);

}  // namespace gradcodec
