// Charts as SVG 1.1, without a library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradcodec {

// Values low <= value <= high along pixels. With a base, logarithmic: low is positive then.
struct Axis {
  double low = 0, high = 1;
  double base = 0;          // 2 or 10; 0: linear
  double from = 0, to = 1;  // pixels

  double at(double value) const;  // beyond the ends: the end
  std::vector<double> ticks() const;
};

// A name as text of XML: escaped as for a terminal, then for XML.
std::string xml_text(std::string_view name);

class Svg {
 public:
  Svg(double width, double height);

  // All in pixels from the top left corner. `style` is attributes, `hint` what a pointer over it shows; may be empty.
  void rect(double x, double y, double width, double height, std::string_view style, std::string_view hint = "");
  void circle(double x, double y, double radius, std::string_view style, std::string_view hint = "");
  void line(std::span<const std::pair<double, double>> points, std::string_view style);
  void text(double x, double y, std::string_view text, std::string_view style = "");

  // The frame of a chart, ticks with their numbers, grid lines, title and the names of the axes.
  void frame(const Axis& x, const Axis& y, std::string_view title, std::string_view x_name, std::string_view y_name);

  std::string finish() const { return body_ + "</svg>\n"; }

 private:
  std::string body_;
};

}  // namespace gradcodec
