// The statistics of a .gradz message, as sections of a report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/report.h"
#include "cli/stats_plot.h"
#include "format/message_stats.h"

namespace gradcodec {

struct MessageReport {
  Section tensors;          // one row a tensor
  std::vector<Cell> whole;  // a row of `tensors` for the file
  Section side;             // how near side information is, if any was compared; the last row is the file's
  Section parts;            // where its bytes went
};

// `compared`: with a dump, so that there are columns of errors.
MessageReport message_report(const MessageStats& stats, const Schema& schema, bool compared);

// A point for the file, which is always numbered as the first, and one a tensor that was compared.
std::vector<PlotPoint> message_points(const MessageStats& stats);

}  // namespace gradcodec
