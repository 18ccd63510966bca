// SPDX-License-Identifier: Apache-2.0
#include "cli/stats_message.h"

#include "cli/side.h"
#include "cli/table.h"

namespace gradcodec {
namespace {

using Row = std::vector<Cell>;

Cell cell(const std::optional<double>& number) {
  if (number) return *number;
  return {};
}

const std::vector<Column> kSizeColumns = {{"values", "values", 0},
                                          {"bytes", "bytes", 0},
                                          {"bits_per_value", "bits/value", 0},
                                          {"exceptions", "exceptions", 0},
                                          {"symbols", "symbols", 0},
                                          {"entropy_bits_per_symbol", "entropy, bits/symbol", 0},
                                          {"entropy_bits_per_value", "entropy, bits/value", 0},
                                          {"above_entropy_percent", "coder above it, %", 0}};

const std::vector<Column> kErrorColumns = {{"nmse", "NMSE", 1},
                                           {"cosine", "cosine", 1},
                                           {"max_error", "largest error", 1},
                                           {"max_error_index", "of element", 1},
                                           {"psnr", "PSNR, dB", 1},
                                           {"bias", "bias along x", 1},
                                           {"unequal", "unequal values", 1},
                                           {"nonfinite", "not finite", 1},
                                           {"beyond_type_chunks", "chunks beyond type", 1}};

Row side_row(const std::string& name, const SideFit& fit) {
  const auto part = [&](uint64_t count) {
    return fit.size() == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(fit.size());
  };
  return {name,
          fit.size(),
          fit.quantile(0.5),
          fit.quantile(0.9),
          fit.quantile(0.99),
          fit.quantile(0.999),
          fit.largest(),
          fit.beyond(),
          part(fit.beyond()),
          fit.wrong(),
          part(fit.wrong()),
          fit.rho() == 0 ? Cell() : Cell(fit.least_rho()),
          fit.rho() == 0 ? Cell() : Cell(fit.least_range())};
}

// In each tensor, and in all.
Section side_section(const MessageStats& stats) {
  Section out;
  out.title = "distance |x - y| to the side information y, in limits (rho - 1) step / (2 alpha)";
  out.columns = {{"name", "tensor", kEveryTable},
                 {"values", "values", 0},
                 {"median", "median", 0},
                 {"quantile_90", "90 %", 0},
                 {"quantile_99", "99 %", 0},
                 {"quantile_999", "99.9 %", 0},
                 {"largest", "largest", 0},
                 {"beyond", "beyond limit", 1},
                 {"beyond_part", "part", 1, 3},
                 {"wrong", "decoded wrongly", 1},
                 {"wrong_part", "part", 1, 3},
                 {"least_rho", "rho that would do", 1},
                 {"least_range", "or range, times", 1}};
  for (const TensorStats& tensor : stats.tensors) {
    if (tensor.fit) out.rows.push_back(side_row(tensor.name, *tensor.fit));
  }
  if (stats.whole.fit) out.rows.push_back(side_row("(file)", *stats.whole.fit));
  return out;
}

void append(Row& row, std::initializer_list<Cell> cells) { row.insert(row.end(), cells.begin(), cells.end()); }

Row row_of(const TensorStats& stats, bool compared, bool whole) {
  Row row = {stats.values,
             stats.bytes,
             cell(stats.bits_per_value()),
             stats.exceptions,
             stats.symbols,
             cell(stats.entropy_per_symbol()),
             cell(stats.entropy_per_value()),
             cell(stats.excess_percent())};
  if (!compared) return row;
  if (!stats.comparison) {
    row.resize(row.size() + kErrorColumns.size());
    return row;
  }
  const Comparison& c = *stats.comparison;
  const Reconstruction r = c.values.value_or(Reconstruction{});
  const bool placed = r.max_error && !whole;
  append(row, {cell(r.nmse), cell(r.cosine), cell(r.max_error), placed ? Cell(r.max_index) : Cell(), cell(r.psnr),
               cell(r.bias), c.unequal, c.values ? Cell(r.nonfinite) : Cell(), c.beyond_type});
  return row;
}

Row with_front(Row front, const Row& row) {
  front.insert(front.end(), row.begin(), row.end());
  return front;
}

}  // namespace

MessageReport message_report(const MessageStats& stats, const Schema& schema, bool compared) {
  MessageReport out;
  out.tensors.columns = {{"name", "tensor", kEveryTable}, {"scheme", "scheme", 0}};
  const auto add_columns = [&](const std::vector<Column>& columns) {
    out.tensors.columns.insert(out.tensors.columns.end(), columns.begin(), columns.end());
  };
  add_columns(kSizeColumns);
  if (compared) add_columns(kErrorColumns);
  for (size_t i = 0; i < stats.tensors.size(); ++i) {
    const TensorStats& tensor = stats.tensors[i];
    const std::string& scheme = schema.schemes[schema.tensors[i].scheme].text;
    out.tensors.rows.push_back(with_front({tensor.name, scheme}, row_of(tensor, compared, false)));
  }
  out.whole = with_front({"(file)", Cell()}, row_of(stats.whole, compared, true));
  if (stats.whole.fit) out.side = side_section(stats);
  out.parts.title = "where the bytes went";
  out.parts.columns = {{"part", "part", kEveryTable}, {"bytes", "bytes", 0}, {"bits_per_value", "bits/value", 0}};
  for (const auto& [name, bytes] : parts_of(stats.parts)) {
    if (bytes == 0) continue;
    const double bits = 8 * static_cast<double>(bytes) / static_cast<double>(stats.whole.values);  // inf: absent
    out.parts.rows.push_back({name, bytes, bits});
  }
  return out;
}

std::vector<PlotPoint> message_points(const MessageStats& stats) {
  std::vector<PlotPoint> out;
  const auto add = [&](const std::string& label, const TensorStats& tensor) {
    if (!tensor.comparison || !tensor.comparison->values || !tensor.comparison->values->nmse) return;
    if (!tensor.bits_per_value()) return;
    out.push_back({label, *tensor.bits_per_value(), *tensor.comparison->values->nmse});
  };
  add("(file)", stats.whole);
  for (const TensorStats& tensor : stats.tensors) add(tensor.name, tensor);
  return out;
}

}  // namespace gradcodec
