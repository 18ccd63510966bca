// What `stats --plot` draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codec/checks/histogram.h"
#include "codec/checks/order_statistics.h"

namespace gradcodec {

// A scheme or a message: what it costs and what it loses.
struct PlotPoint {
  std::string label;
  double bits = kAbsent;  // a value
  double nmse = kAbsent;  // 0: exact
};

struct StatsPlot {
  std::string title;
  std::optional<Histogram> histogram;  // drawn with the fits, each only if it is known
  size_t tensors = 0;                  // whose values are in it
  double median = kAbsent, laplace_scale = kAbsent, mean = kAbsent, deviation = kAbsent;
  std::string size_name;          // which bits
  std::vector<PlotPoint> points;  // NMSE against bits, numbered and listed, if there are any
};

// An SVG document.
std::string draw_stats(const StatsPlot& plot);

// The same in a page of HTML.
std::string html_page(const std::string& title, const std::string& svg);

}  // namespace gradcodec
