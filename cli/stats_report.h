// The statistics of a dump, as sections of a report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli/report.h"
#include "format/statistics.h"

namespace gradcodec {

struct StatsReport {
  Section tensors;          // one row a tensor
  std::vector<Cell> whole;  // a row of `tensors` for all values together
  Section schemes;          // a row for each scheme, over the whole dump
  Section tensor_schemes;   // a row for each tensor and scheme
  Section groups, cosines;  // of a trace
};

// `texts`: the schemes as the user wrote them.
StatsReport stats_report(const DumpStatistics& statistics, const std::vector<std::string>& texts);

// `tensors` with columns for what each scheme makes of the tensor: one row says it all.
Section wide_tensors(const DumpStatistics& statistics, const std::vector<std::string>& texts);

}  // namespace gradcodec
