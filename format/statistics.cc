// SPDX-License-Identifier: Apache-2.0
#include "format/statistics.h"

#include "format/statistics_parts.h"

namespace gradcodec {
namespace {

constexpr size_t kBins = 101;     // odd: zero is in the middle of one
constexpr double kHalfWidth = 5;  // of the histogram, in standard deviations

std::vector<TensorSummary> choose(const Source& source, const StatisticsOptions& options) {
  std::vector<TensorSummary> out;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const TensorInfo& info = source.tensors()[i];
    if (!info.dtype.is_float() || (options.wanted && !options.wanted(info))) continue;
    TensorSummary& tensor = out.emplace_back();
    tensor.ordinal = i;
    tensor.info = info;
  }
  return out;
}

// Symmetric about zero, unless zero is far from all values, and so wide that it shows most of them.
Histogram empty_histogram(const Moments& moments) {
  const double spread = kHalfWidth * moments.deviation(), distance = std::fabs(moments.mean());
  if (distance > spread && spread > 1e-6 * distance) {
    return {moments.mean() - spread, moments.mean() + spread, kBins};
  }
  const double most = moments.norm_inf();
  const double width = std::isfinite(spread + distance) ? std::min(spread + distance, most) : most;
  const bool drawable = width > 0x1p-900 && width < 0x1p900;  // not if all values are zero, or there are none
  return {drawable ? -width : -1, drawable ? width : 1, kBins};
}

struct Binning {
  Range range;
  std::vector<double> values;
  std::optional<Histogram> counts;
};

void fill_histogram(Source& source, const StatisticsOptions& options, Progress& progress, DumpStatistics& out) {
  const Histogram empty = empty_histogram(out.whole.moments);
  out.histogram = empty;
  for (const TensorSummary& tensor : out.tensors) {
    const std::unique_ptr<DumpTensor> data = open_tensor(source, tensor);
    const auto bin = [&](Binning& item) {
      in_tensor(tensor.info, [&] { read_values(*data, item.range, item.values); });
      item.counts = empty;
      item.counts->add(std::span<const double>(item.values));
    };
    const auto take = [&](Binning& item) {
      out.histogram->merge(*item.counts);
      progress.done += item.range.count * tensor.info.dtype.item_size();
    };
    for_chunks<Binning>(options, tensor.info.size(), kStatisticsChunk, 1, bin, take);
  }
}

double per(double amount, uint64_t count) { return count == 0 ? kAbsent : amount / static_cast<double>(count); }

}  // namespace

void SchemeSummary::add(const SchemeSummary& other) {
  values += other.values;
  symbols += other.symbols;
  symbol_bits += other.symbol_bits;
  side_bytes += other.side_bytes;
  coded_bytes += other.coded_bytes;
  error += other.error;
  norm += other.norm;
}

double SchemeSummary::entropy_per_symbol() const { return per(symbol_bits, symbols); }

double SchemeSummary::entropy_per_value() const { return per(symbol_bits, values); }

double SchemeSummary::side_per_value() const { return per(8 * static_cast<double>(side_bytes), values); }

double SchemeSummary::coded_per_value() const { return per(8 * static_cast<double>(coded_bytes), values); }

double SchemeSummary::nmse() const { return norm > 0 ? error / norm : kAbsent; }

DumpStatistics dump_statistics(Source& source, const StatisticsOptions& options, Progress& progress) {
  DumpStatistics out;
  out.tensors = choose(source, options);
  uint64_t bytes = 0;
  for (const TensorSummary& tensor : out.tensors) bytes += tensor.info.byte_size();
  progress.total = bytes * (1 + options.schemes.size() + (options.histogram ? 1 : 0));
  summarize_values(source, options, progress, out);
  summarize_schemes(source, options, progress, out);
  compare_workers(source, options, out);
  if (options.histogram) fill_histogram(source, options, progress, out);
  return out;
}

}  // namespace gradcodec
