// SPDX-License-Identifier: Apache-2.0
#include "cli/stats_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "cli/numbers.h"
#include "cli/svg.h"

namespace gradcodec {
namespace {

constexpr double kWidth = 860, kPanel = 430, kLeft = 80, kRight = 20, kTop = 50, kBottom = 55, kListLine = 16;
constexpr size_t kMostNumbers = 60;  // points that are numbered and listed: more would hide the others
constexpr std::string_view kBar = "class=\"bar\" fill=\"#9db8d6\"", kLaplace = "#c0392b", kNormal = "#1e7b34";

Axis x_axis(double low, double high) { return {low, high, 0, kLeft, kWidth - kRight}; }
Axis y_axis(double low, double high, double top) {
  return {low, high, 10, top + kPanel - kBottom, top + kTop};  // pixels grow downwards
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

// What the bars are of.
std::string pool_text(const StatsPlot& plot) {
  const Histogram& histogram = *plot.histogram;
  const double percent = 100 * static_cast<double>(histogram.beyond()) / static_cast<double>(histogram.total());
  return (plot.tensors == 1 ? "1 tensor" : with_commas(plot.tensors) + " tensors together, whose scales may differ") +
         "; " + short_number(percent, 3) + "% of the values lie outside the range drawn";
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
  svg.text((x.from + x.to) / 2, y.to - 8, pool_text(plot), "text-anchor=\"middle\"");
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
  return point.label + ": " + bits + ", NMSE " + error + (point.nmse == 0 ? " (exact)" : "");
}

using Place = std::pair<double, double>;

// Where the number of the mark at `mark` goes: as near as it overlaps no mark and no number.
Place free_place(const std::vector<Place>& marks, const std::vector<Place>& numbers, Place mark, const Axis& x,
                 const Axis& y) {
  constexpr double kStep = 15;
  constexpr int kRings = 30;
  constexpr std::array<Place, 8> kAround = {{{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {1, -1}, {1, 1}, {-1, -1}, {-1, 1}}};
  const auto near = [](Place a, double width, double height) {
    return [=](Place b) { return std::fabs(a.first - b.first) < width && std::fabs(a.second - b.second) < height; };
  };
  for (int ring = 1; ring <= kRings; ++ring) {
    for (const auto& [right, down] : kAround) {
      const Place place = {mark.first + kStep * ring * right, mark.second + kStep * ring * down};
      const bool inside = place.first > x.from + kStep && place.first < x.to - kStep &&
                          place.second > y.to + kStep / 2 && place.second < y.from - kStep / 2;
      if (inside && std::none_of(marks.begin(), marks.end(), near(place, 14, 11)) &&
          std::none_of(numbers.begin(), numbers.end(), near(place, 22, 12))) {
        return place;
      }
    }
  }
  return {mark.first + kStep, mark.second};
}

void draw_numbers(Svg& svg, const std::vector<Place>& marks, const Axis& x, const Axis& y) {
  std::vector<Place> numbers;
  for (size_t i = 0; i < std::min(marks.size(), kMostNumbers); ++i) {
    const Place place = free_place(marks, numbers, marks[i], x, y);
    const double away = std::max(std::fabs(place.first - marks[i].first), std::fabs(place.second - marks[i].second));
    if (away > 16) svg.line({{marks[i], place}}, "class=\"leader\" stroke=\"#bbb\"");
    svg.text(place.first, place.second + 4, std::to_string(i + 1),
             "class=\"number\" text-anchor=\"middle\" font-size=\"11\"");
    numbers.push_back(place);
  }
}

double list_height(const StatsPlot& plot) {
  const size_t lines = std::min(plot.points.size(), kMostNumbers + 1);
  return kListLine * static_cast<double>(lines) + kListLine;
}

void draw_list(Svg& svg, const StatsPlot& plot, double top) {
  for (size_t i = 0; i < std::min(plot.points.size(), kMostNumbers); ++i) {
    top += kListLine;
    svg.text(kLeft - 8, top, std::to_string(i + 1), "text-anchor=\"end\" font-size=\"11\" class=\"key\"");
    svg.text(kLeft, top, hint_of(plot.points[i]), "class=\"label\"");
  }
  if (plot.points.size() <= kMostNumbers) return;
  svg.text(kLeft, top + kListLine, "and " + with_commas(plot.points.size() - kMostNumbers) + " more, not numbered");
}

Axis bits_axis(const StatsPlot& plot) {
  double narrowest = 0, widest = 0;
  for (const PlotPoint& point : plot.points) {
    if (!std::isfinite(point.bits) || !(point.bits > 0)) continue;
    narrowest = widest == 0 ? point.bits : std::min(narrowest, point.bits);
    widest = std::max(widest, point.bits);
  }
  if (widest > 8 * narrowest) return {narrowest / 1.5, widest * 1.5, 2, kLeft, kWidth - kRight};
  return x_axis(0, widest > 0 ? widest * 1.25 : 1);
}

// Points whose NMSE is 0 or not defined lie, hollow, on the lower edge.
void draw_points(Svg& svg, const StatsPlot& plot, double top) {
  double lowest = 1, highest = 0;
  for (const PlotPoint& point : plot.points) {
    if (!(point.nmse > 0) || !std::isfinite(point.nmse)) continue;
    lowest = highest == 0 ? point.nmse : std::min(lowest, point.nmse);
    highest = std::max(highest, point.nmse);
  }
  if (highest == 0) highest = lowest;
  const Axis x = bits_axis(plot), y = y_axis(lowest / 3, highest * 3, top);
  svg.frame(x, y, "error against size, one message", plot.size_name + (x.base > 0 ? ", log scale" : ""),
            "NMSE (log scale)");
  std::vector<Place> marks;
  for (const PlotPoint& point : plot.points) {
    const bool placed = point.nmse > 0 && std::isfinite(point.nmse);
    marks.emplace_back(std::isfinite(point.bits) ? x.at(point.bits) : x.from, placed ? y.at(point.nmse) : y.from);
    svg.circle(marks.back().first, marks.back().second, 4,
               placed ? "class=\"mark\" fill=\"#c0392b\"" : "class=\"mark\" fill=\"white\" stroke=\"#c0392b\"",
               hint_of(point));
  }
  draw_numbers(svg, marks, x, y);
  draw_list(svg, plot, top + kPanel);
}

}  // namespace

std::string draw_stats(const StatsPlot& plot) {
  const bool histogram = plot.histogram.has_value();
  const bool points = !plot.points.empty();
  Svg svg(kWidth, kPanel * ((histogram ? 1 : 0) + (points ? 1 : 0)) + (points ? list_height(plot) : 0));
  if (histogram) draw_histogram(svg, plot, 0);
  if (points) draw_points(svg, plot, histogram ? kPanel : 0);
  return svg.finish();
}

std::string html_page(const std::string& title, const std::string& svg) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>" + xml_text(title) +
         "</title></head><body>\n" + svg + "</body></html>\n";
}

}  // namespace gradcodec
