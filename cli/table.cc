// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <algorithm>
#include <cstdio>

namespace gradcodec {

void print_table(const std::vector<std::vector<std::string>>& rows, size_t left) {
  print_table(
      rows.size(), [&](size_t i) { return rows[i]; }, left);
}

void print_table(size_t count, const std::function<std::vector<std::string>(size_t)>& row_at, size_t left) {
  std::vector<size_t> widths;
  for (size_t number = 0; number < count; ++number) {
    const std::vector<std::string> row = row_at(number);
    widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (size_t number = 0; number < count; ++number) {
    const std::vector<std::string> row = row_at(number);
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i < left ? row[i] + pad : pad + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

std::vector<std::pair<std::string, uint64_t>> parts_of(const Accounts& accounts) {
  return {{"prologue", accounts.prologue},
          {"schema", accounts.schema},
          {"tree", accounts.tree},
          {"metadata", accounts.metadata},
          {"skipped", accounts.skipped},
          {"message", accounts.message},
          {"frame heads and checks", accounts.frames},
          {"payloads", accounts.payloads},
          {"index and digests", accounts.end},
          {"tail", accounts.tail}};
}

std::string origin_text(DumpKind kind) {
  return kind == DumpKind::npy ? "npy" : kind == DumpKind::npz ? "npz" : "hdf5";
}

}  // namespace gradcodec
