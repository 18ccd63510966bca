// SPDX-License-Identifier: Apache-2.0
#include "tools/train/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "cli/numbers.h"
#include "cli/svg.h"

namespace gradcodec::train {
namespace {

constexpr double kPanel = 560, kHeight = 400, kLeft = 75, kRight = 20, kTop = 45, kBottom = 55, kLine = 17;
constexpr std::array<std::string_view, 10> kColors = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
                                                      "#8c564b", "#e377c2", "#17becf", "#7f7f7f", "#bcbd22"};

using Read = std::function<double(const Record&)>;

double up(const Record& record) { return record.traffic.up / 1e6; }
double both(const Record& record) { return (record.traffic.up + record.traffic.down) / 1e6; }

struct Panel {
  std::string_view title, x_name, y_name;
  Read x, y;
  double base;           // of the x-axis
  bool is_loss = false;  // else accuracy: where the curves end is what is to be seen, and what is beyond is at the edge
};

std::string mbit(double value) {
  return value < 1000 ? short_number(value, 3) : with_commas(static_cast<uint64_t>(value + 0.5));
}

// Every tenth colour is dashed again.
std::string style_of(size_t curve) {
  return "fill=\"none\" stroke-width=\"1.6\" stroke=\"" + std::string(kColors[curve % kColors.size()]) + "\"" +
         (curve < kColors.size() ? "" : " stroke-dasharray=\"5 3\"");
}

void draw_panel(Svg& svg, const std::vector<Curve>& curves, const Panel& panel, double left, double top) {
  Axis x{HUGE_VAL, 0, panel.base, left + kLeft, left + kPanel - kRight};
  Axis y{HUGE_VAL, -HUGE_VAL, 0, top + kHeight - kBottom, top + kTop};
  const auto shown = [&](const Record& record) {
    return std::isfinite(panel.y(record)) && (panel.base == 0 || panel.x(record) > 0);
  };
  for (const Curve& curve : curves) {
    for (const Record& record : curve.records) {
      if (!shown(record)) continue;
      x.low = std::min(x.low, panel.x(record));
      x.high = std::max(x.high, panel.x(record));
      y.low = std::min(y.low, panel.y(record));
      y.high = std::max(y.high, panel.y(record));
    }
  }
  if (!(x.low < x.high)) x.low = x.base > 0 ? 1 : 0, x.high = std::max(x.low + 1, 2 * x.high);
  if (!(y.low < y.high)) y.low -= y.low <= y.high ? 0.5 : 0, y.high = y.low + 1;
  if (panel.is_loss) {
    y.high = std::min(y.high, 3 * std::max(y.low, 0.1));
  } else {
    y.low = std::max(y.low, y.high - 20);
  }
  svg.frame(x, y, panel.title, panel.x_name, "");
  svg.text(x.from, y.to - 6, panel.y_name);
  for (size_t i = 0; i < curves.size(); ++i) {
    std::vector<std::pair<double, double>> points;
    for (const Record& record : curves[i].records) {
      if (shown(record)) points.emplace_back(x.at(panel.x(record)), y.at(panel.y(record)));
    }
    if (points.size() > 1) svg.line(points, style_of(i));
    if (points.size() == 1) svg.circle(points[0].first, points[0].second, 2, style_of(i));
  }
}

}  // namespace

std::string draw(const std::vector<Curve>& curves) {
  const Read steps = [](const Record& record) { return static_cast<double>(record.step); };
  const Read accuracy = [](const Record& record) { return 100 * record.test_accuracy; };
  const Read loss = [](const Record& record) { return record.test_loss; };
  const std::array<Panel, 6> panels = {{
      {"Accuracy by steps", "steps", "test accuracy, %", steps, accuracy, 0},
      {"Loss by steps", "steps", "test loss", steps, loss, 0, true},
      {"Accuracy by bits sent", "Mbit that a worker sent", "test accuracy, %", up, accuracy, 10},
      {"Loss by bits sent", "Mbit that a worker sent", "test loss", up, loss, 10, true},
      {"Accuracy by bits both ways", "Mbit that a worker sent and received", "test accuracy, %", both, accuracy, 10},
      {"Loss by bits both ways", "Mbit that a worker sent and received", "test loss", both, loss, 10, true},
  }};
  Svg svg(2 * kPanel, 3 * kHeight + kLine * static_cast<double>(curves.size() + 1));
  for (size_t i = 0; i < panels.size(); ++i) {
    draw_panel(svg, curves, panels[i], kPanel * static_cast<double>(i % 2), kHeight * static_cast<double>(i / 2));
  }
  double top = 3 * kHeight + kLine;
  for (size_t i = 0; i < curves.size(); ++i, top += kLine) {
    const Record& last = curves[i].records.back();
    svg.line({{{kLeft, top - 4}, {kLeft + 30, top - 4}}}, style_of(i));
    svg.text(kLeft + 38, top,
             curves[i].name + ": " + fixed(100 * last.test_accuracy, 2) + " % after " + with_commas(last.step) +
                 " steps, " + mbit(up(last)) + " Mbit sent, " + mbit(both(last) - up(last)) + " received");
  }
  return svg.finish();
}

}  // namespace gradcodec::train
