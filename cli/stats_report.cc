// SPDX-License-Identifier: Apache-2.0
#include "cli/stats_report.h"

#include <algorithm>

namespace gradcodec {
namespace {

using Row = std::vector<Cell>;

void append(std::vector<Column>& columns, std::initializer_list<Column> more) {
  columns.insert(columns.end(), more.begin(), more.end());
}

void append_summary(std::vector<Column>& columns) {
  append(columns, {{"count", "values", 0},
                   {"zeros", "zeros", 0},
                   {"nonfinite", "not finite", 0},
                   {"min", "min", 0},
                   {"max", "max", 0},
                   {"norm1", "1-norm", 0},
                   {"norm2", "2-norm", 0},
                   {"norm_inf", "inf-norm", 0},
                   {"mean", "mean", 1},
                   {"variance", "variance", 1},
                   {"deviation", "deviation", 1},
                   {"kurtosis", "kurtosis", 1},
                   {"median", "median", 1},
                   {"laplace_scale", "Laplace scale", 1},
                   {"ks_laplace", "KS Laplace", 1},
                   {"ks_normal", "KS normal", 1},
                   {"tail_exponent", "tail exponent", 2},
                   {"tail_count", "of the largest", 2},
                   {"tail_threshold", "above", 2}});
}

void append_summary(Row& row, const Summary& summary) {
  const Moments& m = summary.moments;
  const OrderStatistics& o = summary.order;
  const std::optional<uint64_t> tail_count = o.tail_count > 0 ? std::optional(o.tail_count) : std::nullopt;
  for (const Cell& cell : std::initializer_list<Cell>{
           m.size(), m.zeros(), m.nonfinite(), m.min(), m.max(), m.norm1(), m.norm2(), m.norm_inf(), m.mean(),
           m.variance(), m.deviation(), m.kurtosis(), o.median, o.laplace_scale, o.ks_laplace, o.ks_normal,
           o.tail_exponent, optional_cell(tail_count), o.tail_threshold}) {
    row.push_back(cell);
  }
}

Section tensor_section(const DumpStatistics& statistics) {
  Section out;
  out.columns = {{"name", "tensor", kEveryTable}, {"dtype", "type", 0}, {"shape", "shape", 0}};
  append_summary(out.columns);
  append(out.columns, {{"zero_rows", "zero rows", 2}, {"zero_columns", "zero columns", 2}});
  for (const TensorSummary& tensor : statistics.tensors) {
    Row row = {tensor.info.name, tensor.info.dtype.name(), tensor.info.shape};
    append_summary(row, tensor.summary);
    row.push_back(optional_cell(tensor.zero_rows));
    row.push_back(optional_cell(tensor.zero_columns));
    out.rows.push_back(std::move(row));
  }
  return out;
}

const std::vector<Column> kSchemeColumns = {{"symbols", "symbols", 0},
                                            {"entropy_bits_per_symbol", "entropy, bits/symbol", 0},
                                            {"entropy_bits_per_value", "entropy, bits/value", 0},
                                            {"side_bits_per_value", "parameters, bits/value", 0},
                                            {"coded_bits_per_value", "coded, bits/value", 0},
                                            {"nmse", "NMSE", 0}};

void append_scheme(Row& row, const SchemeSummary& scheme) {
  for (const Cell& cell :
       std::initializer_list<Cell>{scheme.symbols, scheme.entropy_per_symbol(), scheme.entropy_per_value(),
                                   scheme.side_per_value(), scheme.coded_per_value(), scheme.nmse()}) {
    row.push_back(cell);
  }
}

void add_schemes(const DumpStatistics& statistics, const std::vector<std::string>& texts, StatsReport& out) {
  out.schemes.title = "one message by each scheme, all tensors together";
  out.schemes.columns = {{"scheme", "scheme", kEveryTable}};
  out.tensor_schemes.columns = {{"tensor", "tensor", kEveryTable}, {"scheme", "scheme", kEveryTable}};
  for (Section* section : {&out.schemes, &out.tensor_schemes}) {
    section->columns.insert(section->columns.end(), kSchemeColumns.begin(), kSchemeColumns.end());
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    append_scheme(out.schemes.rows.emplace_back(Row{texts[i]}), statistics.schemes[i]);
  }
  for (const TensorSummary& tensor : statistics.tensors) {
    for (size_t i = 0; i < texts.size(); ++i) {
      append_scheme(out.tensor_schemes.rows.emplace_back(Row{tensor.info.name, texts[i]}), tensor.schemes[i]);
    }
  }
}

void add_trace(const DumpStatistics& statistics, StatsReport& out) {
  out.groups.title = "by step and worker";
  out.groups.columns = {{"step", "step", kEveryTable}, {"worker", "worker", kEveryTable}, {"tensors", "tensors", 0}};
  append_summary(out.groups.columns);
  for (const GroupSummary& group : statistics.groups) {
    Row& row = out.groups.rows.emplace_back(Row{optional_cell(group.step), optional_cell(group.worker), group.tensors});
    append_summary(row, group.summary);
  }
  out.cosines.title = "cosines between workers";
  out.cosines.columns = {{"step", "step", kEveryTable},
                         {"first", "first worker", kEveryTable},
                         {"second", "second worker", kEveryTable},
                         {"values", "shared values", 0},
                         {"cosine", "cosine", 0}};
  for (const WorkerCosine& pair : statistics.cosines) {
    out.cosines.rows.push_back({optional_cell(pair.step), pair.first, pair.second, pair.values, pair.cosine});
  }
}

}  // namespace

StatsReport stats_report(const DumpStatistics& statistics, const std::vector<std::string>& texts) {
  StatsReport out;
  out.tensors = tensor_section(statistics);
  out.whole = {"(all)", Cell(), Cell()};
  append_summary(out.whole, statistics.whole);
  out.whole.resize(out.tensors.columns.size());
  add_schemes(statistics, texts, out);
  add_trace(statistics, out);
  return out;
}

Section wide_tensors(const DumpStatistics& statistics, const std::vector<std::string>& texts) {
  Section out = tensor_section(statistics);
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const Column& column : kSchemeColumns) out.columns.push_back({column.key + " " + texts[i], "", kNoTable});
    for (size_t row = 0; row < out.rows.size(); ++row) {
      append_scheme(out.rows[row], statistics.tensors[row].schemes[i]);
    }
  }
  return out;
}

}  // namespace gradcodec
