// What a check found, for people and programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace gradcodec {

enum class Verdict : uint8_t {
  broken,            // the promise is not kept
  undecided,         // nothing against it, but a fault that matters could have been missed
  kept,              // nothing against it, and a fault that matters would have been found
  proved,            // checked without chance
  below_resolution,  // what matters here is less than what float32 arithmetic may add
  not_covered,       // this check cannot show it, or says nothing of this tensor
  approximate,       // a number to look at: without a law nothing can be held to it
};

std::string_view verdict_name(Verdict verdict);

inline constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

// One check of one tensor. Numbers that mean nothing here are kAbsent.
struct Finding {
  std::string name;     // stable: "bias overall", "linear x", "lag 4096"; spec/verify.md
  std::string promise;  // what is promised, a few words
  double measured = kAbsent;
  double bound = kAbsent;                // what `measured` may not pass if the promise is kept
  double low = kAbsent, high = kAbsent;  // interval for the true value
  double smallest = kAbsent;             // effect that would have been found nine times in ten
  double margin = kAbsent;               // effect below which a fault does not matter
  double z = kAbsent;                    // plain normal score, which decides nothing
  Verdict verdict = Verdict::not_covered;
  uint64_t trials_needed = 0;  // of `undecided`: that many decide; 0: no practical number does
  std::string note;            // where, and why
};

struct TensorFindings {
  std::string tensor, stage;  // stage: "" or "narrowed to f2"
  uint64_t size = 0, trials = 0;
  double effective = kAbsent;    // elements that carry the error: V^2 / V4
  double norm = kAbsent;         // ||target||
  double variance = kAbsent;     // V, the declared E||decoded - target||^2
  double resolution = kAbsent;   // ||eta|| / ||target||
  double moved = kAbsent;        // ||x - target||^2 / ||x||^2, where the target is not x: what was clipped
  double moved_along = kAbsent;  // <target - x, x> / ||x||^2, likewise: the bias of clipping
  std::vector<Finding> findings;

  // The first broken one in the order in which causes are likely: checks without chance, bias, variance, dependence,
  // uniformity, variance against size. Null if nothing is broken.
  const Finding* reason() const;
};

}  // namespace gradcodec
