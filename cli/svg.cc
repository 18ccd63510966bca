// SPDX-License-Identifier: Apache-2.0
#include "cli/svg.h"

#include <algorithm>
#include <cmath>

#include "cli/numbers.h"
#include "codec/error.h"

namespace gradcodec {
namespace {

std::string attribute(std::string_view name, double pixels) {
  return " " + std::string(name) + "=\"" + fixed(pixels, 2) + "\"";
}

std::string end_of(std::string_view tag, std::string_view hint) {
  return hint.empty() ? "/>\n" : "><title>" + xml_text(hint) + "</title></" + std::string(tag) + ">\n";
}

}  // namespace

double Axis::at(double value) const {
  const double inside = std::clamp(value, low, high);
  const double part = base > 0 ? std::log(inside / low) / std::log(high / low) : (inside - low) / (high - low);
  return from + part * (to - from);
}

// About six: multiples of 1, 2 or 5 times a power of ten; on a logarithmic axis powers of its base, or 1, 2, 5 of each.
std::vector<double> Axis::ticks() const {
  std::vector<double> out;
  if (base > 0) {
    const double first = std::floor(std::log(low) / std::log(base)), last = std::ceil(std::log(high) / std::log(base));
    const double every = std::max(1.0, std::floor((last - first) / 8));
    for (double power = first; power <= last; power += every) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(base, power);
        if (value >= low && value <= high && (digit == 1 || (base == 10 && last - first <= 3))) out.push_back(value);
      }
    }
    return out;
  }
  double step = std::pow(10, std::floor(std::log10((high - low) / 5)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if ((high - low) / step > 8) step *= factor;
  }
  for (double i = std::ceil(low / step); i * step <= high; ++i) out.push_back(i * step + 0.0);
  return out;
}

std::string xml_text(std::string_view name) {
  std::string out;
  for (const char c : escaped(name)) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return out;
}

Svg::Svg(double width, double height) {
  body_ = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) + attribute("height", height) +
          " viewBox=\"0 0 " + fixed(width, 0) + " " + fixed(height, 0) +
          "\" font-family=\"sans-serif\" font-size=\"12\">\n";
  rect(0, 0, width, height, "fill=\"white\"");
}

void Svg::rect(double x, double y, double width, double height, std::string_view style, std::string_view hint) {
  body_ += "<rect" + attribute("x", x) + attribute("y", y) + attribute("width", width) + attribute("height", height) +
           " " + std::string(style) + end_of("rect", hint);
}

void Svg::circle(double x, double y, double radius, std::string_view style, std::string_view hint) {
  body_ += "<circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", radius) + " " + std::string(style) +
           end_of("circle", hint);
}

void Svg::line(std::span<const std::pair<double, double>> points, std::string_view style) {
  body_ += "<polyline points=\"";
  for (const auto& [x, y] : points) body_ += fixed(x, 2) + "," + fixed(y, 2) + " ";
  body_ += "\" " + std::string(style) + "/>\n";
}

void Svg::text(double x, double y, std::string_view text, std::string_view style) {
  body_ +=
      "<text" + attribute("x", x) + attribute("y", y) + " " + std::string(style) + ">" + xml_text(text) + "</text>\n";
}

void Svg::frame(const Axis& x, const Axis& y, std::string_view title, std::string_view x_name,
                std::string_view y_name) {
  constexpr std::string_view kGrid = "stroke=\"#ddd\" fill=\"none\"";
  for (const double tick : x.ticks()) {
    line({{{x.at(tick), y.from}, {x.at(tick), y.to}}}, kGrid);
    text(x.at(tick), y.from + 16, short_number(tick, 7), "text-anchor=\"middle\"");
  }
  for (const double tick : y.ticks()) {
    line({{{x.from, y.at(tick)}, {x.to, y.at(tick)}}}, kGrid);
    text(x.from - 6, y.at(tick) + 4, short_number(tick, 7), "text-anchor=\"end\"");
  }
  rect(x.from, y.to, x.to - x.from, y.from - y.to, "fill=\"none\" stroke=\"black\"");
  const double middle = (x.from + x.to) / 2, height = (y.from + y.to) / 2;
  text(middle, y.to - 26, title, "text-anchor=\"middle\" font-size=\"15\"");
  text(middle, y.from + 36, x_name, "text-anchor=\"middle\"");
  text(18, height, y_name, "text-anchor=\"middle\" transform=\"rotate(-90 18 " + fixed(height, 2) + ")\"");
}

}  // namespace gradcodec
