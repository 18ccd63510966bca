// Names of tensors in traces: whose gradient, and of which training step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gradcodec {

struct TraceName {
  std::optional<uint64_t> step, worker;
  std::string rest;  // the path without those parts: the same for all steps and workers

  bool in_trace() const { return step || worker; }
};

// Parts of a path between '/': step_000010, step-10, Step10; worker_00, worker0, rank_3. The first of each kind counts;
// numbers are below 10^18.
TraceName parse_trace_name(std::string_view name);

}  // namespace gradcodec
