// SPDX-License-Identifier: Apache-2.0
#include "codec/levels/truncation.h"

#include <algorithm>

#include "codec/levels/laplace.h"

namespace gradcodec {
namespace {

using Design = TruncationDesign;

// An interval's width squared over this is charged for each of its values.
double divisor_of(Design::Rule rule) { return rule == Design::paper ? 4 : 6; }

double laplace_threshold(const Design& design) {
  const double s = design.intervals(), c = divisor_of(design.rule);
  if (design.shape == Design::nonuniform) return laplace::best_threshold(s, c);
  return design.rule == Design::exact ? laplace::best_uniform_threshold(s, c) : laplace::uniform_threshold(s, c);
}

double power_law_threshold(const Design& design, const PowerLaw& law, double limit) {
  const double s = design.intervals(), c = divisor_of(design.rule);
  const bool exact = design.rule == Design::exact;
  switch (design.shape) {
    case Design::uniform:
      return exact ? power_law::best_uniform_threshold(law, s, c, limit)
                   : power_law::uniform_threshold(law, s, c, limit);
    case Design::nonuniform:
      return exact ? power_law::best_nonuniform_threshold(law, s, c, limit)
                   : power_law::nonuniform_threshold(law, s, c, limit);
    case Design::two_scales:
      break;
  }
  return exact ? power_law::best_two_scale_threshold(law, s, c, limit)
               : power_law::two_scale_threshold(law, s, c, limit);
}

std::vector<double> equal_levels(unsigned intervals, double threshold) {
  std::vector<double> levels;
  for (unsigned j = 1; j < intervals; j += 2) levels.push_back(threshold * j / intervals);
  levels.push_back(threshold);
  return levels;
}

// From units of the law to the tensor's. The last level, if at the limit, is the largest value itself.
std::vector<double> scaled(std::vector<double> levels, double unit, double max) {
  for (double& level : levels) level = std::min(level * unit, max);
  return levels;
}

}  // namespace

Design::Density density_named(std::string_view name) { return name == "laplace" ? Design::laplace : Design::power_law; }

Design::Rule rule_named(std::string_view name) {
  return name == "paper" ? Design::paper : name == "mse" ? Design::mse : Design::exact;
}

std::vector<double> laplace_levels(const Design& design, double scale, double max) {
  const double threshold = std::min(laplace_threshold(design), max / scale);
  return scaled(design.shape == Design::nonuniform ? laplace::levels(design.intervals(), threshold)
                                                   : equal_levels(design.intervals(), threshold),
                scale, max);
}

std::vector<double> power_law_levels(const Design& design, const std::optional<Tail>& tail, double max) {
  const unsigned s = design.intervals();
  if (!tail) return equal_levels(s, max);
  const auto begin = static_cast<double>(tail->begin);
  const double threshold = power_law_threshold(design, tail->law, max / begin);
  switch (design.shape) {
    case Design::uniform:
      break;
    case Design::nonuniform:
      return scaled(power_law::nonuniform_levels(tail->law, s, threshold), begin, max);
    case Design::two_scales:
      return scaled(power_law::two_scale_levels(tail->law, s, threshold), begin, max);
  }
  return scaled(equal_levels(s, threshold), begin, max);
}

std::vector<double> scan_levels(const Design& design, const Tensor& tensor, const Inputs& inputs,
                                const Extent& extent) {
  const auto max = static_cast<double>(extent.max);
  if (design.density == Design::laplace) {
    return laplace_levels(design, scan_mean_magnitude(tensor, inputs, extent.irregular), max);
  }
  return power_law_levels(design, scan_tail(tensor, inputs, extent.irregular), max);
}

}  // namespace gradcodec
