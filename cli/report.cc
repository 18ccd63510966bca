// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "cli/numbers.h"
#include "cli/table.h"
#include "codec/error.h"

namespace gradcodec {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

using Shape = std::vector<uint64_t>;

std::string cell_text(const Cell& cell, int digits) {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("-"); }, [](const std::string& text) { return escaped(text); },
                 [](uint64_t count) { return with_commas(count); },
                 [digits](double number) { return std::isfinite(number) ? short_number(number, digits) : "-"; },
                 [](const Shape& shape) { return shape_text(shape); }},
      cell);
}

Json cell_json(const Cell& cell) {
  return std::visit(
      Overloaded{[](std::monostate) { return Json(); }, [](const std::string& text) { return Json(text); },
                 [](uint64_t count) { return Json(count); },
                 [](double number) { return std::isfinite(number) ? Json(number) : Json(); },
                 [](const Shape& shape) { return Json(shape); }},
      cell);
}

std::string csv_text(const std::string& text) {
  std::string out;
  bool quoted = false;
  for (const char c : text) {
    const bool control = (c >= 0 && c < 0x20) || c == 0x7F;
    if (control && c != '\n' && c != '\t') {
      out += escaped(std::string_view(&c, 1));
      continue;
    }
    quoted |= c == '"' || c == ',' || c == '\n';
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted || out.empty() ? '"' + out + '"' : out;
}

std::string shortest(double number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

std::string cell_csv(const Cell& cell) {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string(); }, [](const std::string& text) { return csv_text(text); },
                 [](uint64_t count) { return std::to_string(count); },
                 [](double number) { return std::isfinite(number) ? shortest(number) : std::string(); },
                 [](const Shape& shape) { return shape_text(shape); }},
      cell);
}

bool print_part(const Section& section, int part, bool first) {
  std::vector<size_t> chosen;
  bool any = false;
  for (size_t i = 0; i < section.columns.size(); ++i) {
    const int table = section.columns[i].table;
    if (table == part || table == kEveryTable) chosen.push_back(i);
    any |= table == part;
  }
  if (!any) return false;
  size_t left = 0;
  for (const size_t i : chosen) left += section.columns[i].table == kEveryTable ? 1 : 0;
  const auto row_at = [&](size_t number) {
    std::vector<std::string> row;
    for (const size_t i : chosen) {
      const Column& column = section.columns[i];
      row.push_back(number == 0 ? column.heading : cell_text(section.rows[number - 1][i], column.digits));
    }
    return row;
  };
  std::printf("\n");
  if (first && !section.title.empty()) std::printf("%s\n", section.title.c_str());
  print_table(1 + section.rows.size(), row_at, left);
  return true;
}

}  // namespace

Cell optional_cell(const std::optional<uint64_t>& count) {
  if (count) return *count;
  return {};
}

void print_section(const Section& section) {
  if (section.rows.empty()) return;
  for (int part = 0; print_part(section, part, part == 0); ++part) {
  }
}

Json row_json(const Section& section, const std::vector<Cell>& row) {
  Json out = Json::object();
  for (size_t i = 0; i < section.columns.size(); ++i) out[section.columns[i].key] = cell_json(row[i]);
  return out;
}

Json section_json(const Section& section) {
  Json out = Json::array();
  for (const std::vector<Cell>& row : section.rows) out.push_back(row_json(section, row));
  return out;
}

std::string section_csv(const Section& section) {
  std::string out;
  for (size_t i = 0; i < section.columns.size(); ++i) out += (i == 0 ? "" : ",") + csv_text(section.columns[i].key);
  out += '\n';
  for (const std::vector<Cell>& row : section.rows) {
    for (size_t i = 0; i < row.size(); ++i) out += (i == 0 ? "" : ",") + cell_csv(row[i]);
    out += '\n';
  }
  return out;
}

}  // namespace gradcodec
