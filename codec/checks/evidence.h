// What the findings on one tensor are made from; for the files that make them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/checks/error_check.h"

namespace gradcodec {

// All outlive it. `limits`: of laws of two values that do not vary; null if there are none.
struct Evidence {
  const LawSums& laws;
  const ErrorSums& sums;
  const std::optional<Promise>& promise;
  const CheckOptions& options;
  const std::vector<uint64_t>& lags;
  uint64_t size = 0, trials = 1;
  const BinomialLimits* limits = nullptr;
  bool transforms = false;  // Trials::transforms
};

// Checks without chance, then tests of chance, in the order in which causes are likely. Numbers as in spec/verify.md.
std::vector<Finding> findings_without_chance(const Evidence& evidence);
std::vector<Finding> findings_of_chance(const Evidence& evidence);

// Instead of the tests of chance, where the scheme declares no law: numbers with intervals of Student's law, which
// decide nothing.
std::vector<Finding> findings_without_law(const Evidence& evidence);

inline constexpr uint64_t kManyTrials = 100000;  // more is not practical

// What the linear tests are of, in order.
inline constexpr std::array<std::string_view, kWeights> kWeightNames = {"x", "x/var", "1", "sign", "|x|"};

// Names and promises of tests that stand in both.
inline constexpr std::string_view kBiasOverall = "bias overall",
                                  kUnbiasedOverall = "unbiased overall, workers independent (bias^2 / variance)";
std::string linear_name(unsigned weight);
std::string linear_promise(unsigned weight);

Finding proof(std::string_view name, std::string_view promise, bool kept, std::string note = "");
Finding absent(std::string_view name, std::string_view promise, std::string note);  // not covered

}  // namespace gradcodec
