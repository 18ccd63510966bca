// What a command found, once, for people (tables), programs (JSON) and spreadsheets (CSV).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace gradcodec {

// Absent (also a number that is not finite), a text, a count, a number, or a shape.
using Cell = std::variant<std::monostate, std::string, uint64_t, double, std::vector<uint64_t>>;

Cell optional_cell(const std::optional<uint64_t>& count);

inline constexpr int kEveryTable = -1, kNoTable = -2;

struct Column {
  std::string key;      // in JSON and CSV
  std::string heading;  // in a table
  int table = 0;        // people get the section as several tables, numbered from 0; or kEveryTable, kNoTable
  int digits = 5;       // of numbers in a table
};

// A list of things of one kind: each row has a cell a column.
struct Section {
  std::string title;  // of the first table; may be empty
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

void print_section(
    const Section& section);  // "-" for what is absent, names escaped, numbers of as many digits as the column says

using Json = nlohmann::ordered_json;
Json section_json(const Section& section);                            // an array of objects; null for what is absent
Json row_json(const Section& section, const std::vector<Cell>& row);  // one object

// RFC 4180 with LF: a header row of keys, then the rows; nothing for what is absent. Control characters other than tab
// and newline are written as \xNN.
std::string section_csv(const Section& section);

}  // namespace gradcodec
