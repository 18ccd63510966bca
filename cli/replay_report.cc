// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "cli/numbers.h"
#include "cli/svg.h"

namespace gradcodec {
namespace {

constexpr double kWidth = 860, kPanel = 330, kLeft = 80, kRight = 20, kTop = 50, kBottom = 55, kLine = 17;
constexpr std::array<std::string_view, 10> kColors = {"#1f5fa8", "#c0392b", "#1e7b34", "#8e44ad", "#b9770e",
                                                      "#148f9c", "#7b3f00", "#e0559a", "#555555", "#9ab400"};

std::string downs_text(const std::set<Downlink>& downs) {
  std::string text;
  for (const Downlink down : downs) text += (text.empty() ? "" : "+") + std::string(downlink_text(down));
  return text;
}

double bits(uint64_t bytes, uint64_t values) {
  return values == 0 ? kAbsent : 8 * static_cast<double>(bytes) / static_cast<double>(values);
}

double up_bits(const ReplayRow& row, uint64_t values) { return bits(row.up_bytes, row.messages * values); }

using Number = std::function<double(const ReplayRow&)>;

// A line for each scheme, through the steps where its number is defined and, on a logarithmic axis, not 0.
void draw_panel(Svg& svg, const std::vector<ReplayRow>& rows, size_t schemes, double top, const std::string& title,
                const std::string& name, const Number& number) {
  double first = 0, last = 1, low = 0, high = 0;
  if (!rows.empty()) {
    first = static_cast<double>(rows.front().step);
    last = std::max(first + 1, static_cast<double>(rows.back().step));
  }
  for (const ReplayRow& row : rows) {
    const double y = number(row);
    if (!std::isfinite(y) || y <= 0) continue;
    low = low == 0 ? y : std::min(low, y);
    high = std::max(high, y);
  }
  if (high == 0) low = high = 1;
  const Axis x = {first, last, 0, kLeft, kWidth - kRight};
  const Axis y = {low / 1.5, high * 1.5, 10, top + kPanel - kBottom, top + kTop};  // pixels grow downwards
  svg.frame(x, y, title, "step", name);
  for (size_t scheme = 0; scheme < schemes; ++scheme) {
    const std::string color(kColors[scheme % kColors.size()]);
    std::vector<std::pair<double, double>> points;
    for (const ReplayRow& row : rows) {
      if (row.scheme != scheme || !std::isfinite(number(row)) || number(row) <= 0) continue;
      points.emplace_back(x.at(static_cast<double>(row.step)), y.at(number(row)));
    }
    if (points.size() > 1)
      svg.line(points, "class=\"run\" fill=\"none\" stroke-width=\"1.6\" stroke=\"" + color + "\"");
    if (points.size() == 1) svg.circle(points[0].first, points[0].second, 3, "class=\"run\" fill=\"" + color + "\"");
  }
}

}  // namespace

Section replay_totals(const std::vector<ReplayTotal>& totals, const std::vector<std::string>& schemes) {
  Section out;
  out.title = "all steps; bits are a value of a worker's message, errors are means over steps";
  out.columns = {{"scheme", "scheme", kEveryTable},
                 {"steps", "steps", kNoTable},
                 {"messages", "messages", kNoTable},
                 {"up_bytes", "up, bytes", 0},
                 {"up_bits_per_value", "up, bits", 0, 4},
                 {"down_bytes", "down, bytes", 0},
                 {"down_bits_per_value", "down, bits", 0, 4},
                 {"down", "down as", 0},
                 {"worker_nmse", "NMSE of a worker", 1, 4},
                 {"mean_nmse", "of the mean", 1, 4},
                 {"cosine", "cosine of the mean", 1, 4},
                 {"run_nmse", "NMSE of the whole run", 1, 4},
                 {"memory_norm", "memory", 1, 4},
                 {"checked", "checked", 1},
                 {"failures", "failures", 1},
                 {"wrong_values", "wrong values", 1}};
  for (size_t i = 0; i < totals.size(); ++i) {
    const ReplayTotal& total = totals[i];
    out.rows.push_back({schemes[i], total.steps, total.messages, total.up_bytes, total.up_bits(), total.down_bytes,
                        total.down_bits(), downs_text(total.downs), total.worker_nmse, total.mean_nmse, total.cosine,
                        total.run_nmse, total.memory_norm, total.checked, total.failures, total.wrong});
  }
  return out;
}

Section replay_steps(const std::vector<ReplayRow>& rows, const std::vector<std::string>& schemes, uint64_t values) {
  Section out;
  out.title = "step by step";
  out.columns = {{"step", "step", kEveryTable},
                 {"scheme", "scheme", kEveryTable},
                 {"messages", "workers", 0},
                 {"up_bytes", "up, bytes", kNoTable},
                 {"up_bits_per_value", "up, bits", 0, 4},
                 {"down_bytes", "down, bytes", kNoTable},
                 {"down_bits_per_value", "down, bits", 0, 4},
                 {"down", "down as", 0},
                 {"worker_nmse", "NMSE of a worker", 0, 4},
                 {"mean_nmse", "of the mean", 0, 4},
                 {"cosine", "cosine", 0, 4},
                 {"run_nmse", "of the run", 0, 4},
                 {"memory_norm", "memory", 0, 4},
                 {"checked", "checked", kNoTable},
                 {"failures", "failures", 0},
                 {"wrong_values", "wrong values", 0}};
  for (const ReplayRow& row : rows) {
    out.rows.push_back({row.step, schemes[row.scheme], row.messages, row.up_bytes, up_bits(row, values), row.down_bytes,
                        bits(row.down_bytes, values), std::string(downlink_text(row.down)), row.worker_nmse,
                        row.mean_nmse, row.cosine, row.run_nmse, row.memory_norm, row.checked, row.failures,
                        row.wrong});
  }
  return out;
}

std::string draw_replay(const std::vector<ReplayRow>& rows, const std::vector<std::string>& schemes, uint64_t values,
                        const std::string& title) {
  Svg svg(kWidth, 3 * kPanel + kLine * static_cast<double>(schemes.size() + 1));
  draw_panel(svg, rows, schemes.size(), 0, "bits up, a value of a message: " + title, "bits (log scale)",
             [&](const ReplayRow& row) { return up_bits(row, values); });
  draw_panel(svg, rows, schemes.size(), kPanel, "error of the mean of the workers", "NMSE (log scale)",
             [](const ReplayRow& row) { return row.mean_nmse; });
  draw_panel(svg, rows, schemes.size(), 2 * kPanel, "error of the sum of all means so far", "NMSE (log scale)",
             [](const ReplayRow& row) { return row.run_nmse; });
  for (size_t i = 0; i < schemes.size(); ++i) {
    const double y = 3 * kPanel + kLine * static_cast<double>(i + 1);
    svg.rect(kLeft, y - 9, 18, 9, "class=\"key\" fill=\"" + std::string(kColors[i % kColors.size()]) + "\"");
    svg.text(kLeft + 24, y, schemes[i], "class=\"label\"");
  }
  return svg.finish();
}

}  // namespace gradcodec
