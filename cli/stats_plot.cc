// SPDX-License-Identifier: Apache-2.0
#include "cli/stats_plot.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/numbers.h"
#include "cli/svg.h"

namespace gradcodec {
namespace {

constexpr double kWidth = 860, kPanel = 430, kLeft = 80, kRight = 20, kTop = 50, kBottom = 55;
constexpr std::string_view kBar = "class=\"bar\" fill=\"#9db8d6\"", kLaplace = "#c0392b", kNormal = "#1e7b34";

Axis x_axis(double low, double high) { return {low, high, false, kLeft, kWidth - kRight}; }
Axis y_axis(double low, double high, double top) {
  return {low, high, true, top + kPanel - kBottom, top + kTop};  // pixels grow downwards
}

using Density = std::function<double(double)>;

void draw_curve(Svg& svg, const Axis& x, const Axis& y, std::string_view color, const Density& density) {
  constexpr int kSteps = 400;
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i <= kSteps; ++i) {
    const double value = x.low + (x.high - x.low) * i / kSteps;
    if (density(value) >= y.low) points.emplace_back(x.at(value), y.at(density(value)));
  }
  if (points.empty()) return;
  svg.line(points, "fill=\"none\" stroke-width=\"1.8\" stroke=\"" + std::string(color) + "\"");
}

void draw_legend(Svg& svg, double top, const std::vector<std::pair<std::string_view, std::string>>& entries) {
  double y = top + kTop + 18;
  for (const auto& [color, text] : entries) {
    svg.rect(kWidth - 330, y - 9, 18, 9, "class=\"key\" fill=\"" + std::string(color) + "\"");
    svg.text(kWidth - 306, y, text);
    y += 17;
  }
}

void draw_histogram(Svg& svg, const StatsPlot& plot, double top) {
  const Histogram& histogram = *plot.histogram;
  if (histogram.total() == 0) {
    svg.text(kWidth / 2, top + kPanel / 2, "no finite values", "text-anchor=\"middle\"");
    return;
  }
  // Narrower than anything that can be seen, a fit would only push the axis away.
  const double narrowest = 1e-6 * (histogram.high() - histogram.low());
  const bool laplace = plot.laplace_scale > narrowest, normal = plot.deviation > narrowest;
  const auto laplace_at = [&](double x) { return laplace_density(x, plot.median, plot.laplace_scale); };
  const auto normal_at = [&](double x) { return normal_density(x, plot.mean, plot.deviation); };
  const double one = 1 / (static_cast<double>(histogram.total()) * histogram.width());
  double highest = one;
  for (size_t i = 0; i < histogram.bins(); ++i) highest = std::max(highest, histogram.density(i));
  if (laplace) highest = std::max(highest, laplace_at(plot.median));
  if (normal) highest = std::max(highest, normal_at(plot.mean));
  const Axis x = x_axis(histogram.low(), histogram.high()), y = y_axis(one / 2, highest * 2, top);
  svg.frame(x, y, plot.title, "value", "density (log scale)");
  for (size_t i = 0; i < histogram.bins(); ++i) {
    if (histogram.count(i) == 0) continue;
    const double left = x.at(histogram.edge(i)), right = x.at(histogram.edge(i + 1)), up = y.at(histogram.density(i));
    svg.rect(left, up, right - left, y.from - up, kBar,
             short_number(histogram.edge(i), 5) + " to " + short_number(histogram.edge(i + 1), 5) + ": " +
                 with_commas(histogram.count(i)) + " values");
  }
  std::vector<std::pair<std::string_view, std::string>> legend = {
      {"#9db8d6", "values, " + with_commas(histogram.total())}};
  if (laplace) {
    draw_curve(svg, x, y, kLaplace, laplace_at);
    legend.emplace_back(
        kLaplace, "Laplace, median " + short_number(plot.median, 3) + ", scale " + short_number(plot.laplace_scale, 3));
  }
  if (normal) {
    draw_curve(svg, x, y, kNormal, normal_at);
    legend.emplace_back(
        kNormal, "normal, mean " + short_number(plot.mean, 3) + ", deviation " + short_number(plot.deviation, 3));
  }
  draw_legend(svg, top, legend);
}

std::string hint_of(const PlotPoint& point) {
  const std::string error = std::isfinite(point.nmse) ? short_number(point.nmse, 4) : "not defined";
  const std::string bits = std::isfinite(point.bits) ? short_number(point.bits, 4) + " bits a value" : "no values";
  return point.label + ": " + bits + ", NMSE " + error;
}

// Below labels that are there already.
double free_height(std::vector<std::pair<double, double>>& labels, double x, double y) {
  constexpr double kLine = 13, kReach = 180;
  std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const auto& [at, height] : labels) {
    if (std::fabs(at - x) < kReach && std::fabs(height - y) < kLine) y = height + kLine;
  }
  labels.emplace_back(x, y);
  return y;
}

// Points whose NMSE is 0 or not defined lie, hollow, on the lower edge.
void draw_points(Svg& svg, const StatsPlot& plot, double top) {
  double lowest = 1, highest = 0, widest = 0;
  for (const PlotPoint& point : plot.points) {
    if (std::isfinite(point.bits)) widest = std::max(widest, point.bits);
    if (!(point.nmse > 0) || !std::isfinite(point.nmse)) continue;
    lowest = highest == 0 ? point.nmse : std::min(lowest, point.nmse);
    highest = std::max(highest, point.nmse);
  }
  if (highest == 0) highest = lowest;
  const Axis x = x_axis(0, widest > 0 ? widest * 1.25 : 1), y = y_axis(lowest / 3, highest * 3, top);
  svg.frame(x, y, "error against size, one message", "bits a value (entropy of the symbols, and parameters)",
            "NMSE (log scale)");
  std::vector<std::pair<double, double>> labels;
  for (const PlotPoint& point : plot.points) {
    const bool placed = point.nmse > 0 && std::isfinite(point.nmse);
    const double at = std::isfinite(point.bits) ? x.at(point.bits) : x.from;
    const double height = placed ? y.at(point.nmse) : y.from;
    svg.circle(at, height, 5,
               placed ? "class=\"mark\" fill=\"#c0392b\"" : "class=\"mark\" fill=\"white\" stroke=\"#c0392b\"",
               hint_of(point));
    const bool turned = at > (x.from + x.to) / 2;  // no text beyond the frame
    const std::string more = placed ? "" : point.nmse == 0 ? " (exact)" : " (no NMSE)";
    svg.text(at + (turned ? -9 : 9), std::min(free_height(labels, at, height - 6), top + kPanel - 4),
             point.label + more, turned ? "text-anchor=\"end\"" : "");
  }
}

}  // namespace

std::string draw_stats(const StatsPlot& plot) {
  const bool histogram = plot.histogram.has_value();
  const bool points = !plot.points.empty();
  Svg svg(kWidth, kPanel * ((histogram ? 1 : 0) + (points ? 1 : 0)));
  if (histogram) draw_histogram(svg, plot, 0);
  if (points) draw_points(svg, plot, histogram ? kPanel : 0);
  return svg.finish();
}

std::string html_page(const std::string& title, const std::string& svg) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>" + xml_text(title) +
         "</title></head><body>\n" + svg + "</body></html>\n";
}

}  // namespace gradcodec
