// What replay found, as tables, rows and a chart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/report.h"
#include "format/replay.h"

namespace gradcodec {

Section replay_totals(const std::vector<ReplayTotal>& totals, const std::vector<std::string>& schemes);

// One row a step and scheme. `values`: of a message.
Section replay_steps(const std::vector<ReplayRow>& rows, const std::vector<std::string>& schemes, uint64_t values);

// An SVG document: bits, error of the mean and error of the run, step by step, a line a scheme.
std::string draw_replay(const std::vector<ReplayRow>& rows, const std::vector<std::string>& schemes, uint64_t values,
                        const std::string& title);

}  // namespace gradcodec
