// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/common.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/side.h"
#include "cli/stats_message.h"
#include "cli/stats_plot.h"
#include "cli/stats_report.h"
#include "cli/table.h"
#include "format/dumps/open.h"

namespace gradcodec {
namespace {

struct StatsArguments {
  CommonOptions common;
  SideArguments side;
  std::string input, against, only, plot, at, seed = "1";
  std::vector<std::string> schemes;
  bool json = false, csv = false, force = false, as_bf16 = false, drop_unsupported = false;
};

StatisticsOptions options_of(const StatsArguments& args) {
  StatisticsOptions options;
  options.wanted = [&args](const TensorInfo& info) { return is_wanted(args.only, info); };
  for (const std::string& text : args.schemes) options.schemes.push_back(parse_scheme(text));
  options.seed = parse_count(args.seed, "--seed", 0, ~uint64_t{0});
  options.histogram = !args.plot.empty();
  options.threads = args.common.thread_count();
  options.memory = args.common.memory_limit();
  return options;
}

bool is_html(const std::string& path) { return path.ends_with(".html"); }

std::vector<const TensorInfo*> not_numeric(const StatsArguments& args, const Source& source) {
  std::vector<const TensorInfo*> out;
  for (const TensorInfo& info : source.tensors()) {
    if (!info.dtype.is_float() && is_wanted(args.only, info)) out.push_back(&info);
  }
  return out;
}

std::string head_line(const StatsArguments& args, const RandomFile& file, const Source& source,
                      const DumpStatistics& statistics) {
  const Moments& all = statistics.whole.moments;
  std::string line = escaped(file.name()) + ": " + origin_text(source.kind()) + ", " +
                     with_commas(statistics.tensors.size()) + " tensors, " + with_commas(all.size()) + " values";
  if (all.nonfinite() > 0) line += ", " + with_commas(all.nonfinite()) + " of them not finite and left out of all else";
  if (!args.schemes.empty()) line += ", seed " + args.seed;
  return line;
}

void print_tables(const StatsArguments& args, const RandomFile& file, const Source& source,
                  const DumpStatistics& statistics, const StatsReport& report) {
  std::printf("%s\n", head_line(args, file, source, statistics).c_str());
  Section tensors = report.tensors;
  if (tensors.rows.size() != 1) tensors.rows.push_back(report.whole);
  print_section(tensors);
  if (tensors.rows.size() > 1) std::printf("(all) is the mixture of all tensors, whose scales may differ\n");
  for (const Section* section : {&report.tensor_schemes, &report.schemes, &report.groups, &report.cosines}) {
    print_section(*section);
  }
  const std::vector<const TensorInfo*> skipped = not_numeric(args, source);
  if (!skipped.empty()) std::printf("\nnot of a float type, skipped\n");
  for (const TensorInfo* info : skipped) {
    std::printf("%s  %s  %s\n", escaped(info->name).c_str(), escaped(info->dtype.name()).c_str(),
                shape_text(info->shape).c_str());
  }
}

void print_json(const StatsArguments& args, const RandomFile& file, const Source& source, const StatsReport& report) {
  Json skipped = Json::array();
  for (const TensorInfo* info : not_numeric(args, source)) {
    skipped.push_back({{"name", info->name}, {"dtype", info->dtype.name()}, {"shape", info->shape}});
  }
  Json whole = row_json(report.tensors, report.whole);
  for (const char* key : {"name", "dtype", "shape", "zero_rows", "zero_columns"}) whole.erase(key);
  const Json out = {{"kind", "dump"},
                    {"file", escaped(file.name())},
                    {"origin", origin_text(source.kind())},
                    {"seed", parse_count(args.seed, "--seed", 0, ~uint64_t{0})},
                    {"whole", whole},
                    {"tensors", section_json(report.tensors)},
                    {"skipped", skipped},
                    {"schemes", section_json(report.schemes)},
                    {"tensor_schemes", section_json(report.tensor_schemes)},
                    {"groups", section_json(report.groups)},
                    {"cosines", section_json(report.cosines)}};
  std::printf("%s\n", out.dump(2).c_str());
}

StatsPlot plot_of(const StatsArguments& args, const RandomFile& file, const DumpStatistics& statistics) {
  StatsPlot plot;
  plot.title = "values of " + file.name().substr(file.name().rfind('/') + 1);
  plot.histogram = statistics.histogram;
  plot.tensors = statistics.tensors.size();
  plot.size_name = "bits a value (bytes of the tensors' frames, as compress codes them)";
  plot.median = statistics.whole.order.median;
  plot.laplace_scale = statistics.whole.order.laplace_scale;
  plot.mean = statistics.whole.moments.mean();
  plot.deviation = statistics.whole.moments.deviation();
  for (size_t i = 0; i < args.schemes.size(); ++i) {
    const SchemeSummary& scheme = statistics.schemes[i];
    plot.points.push_back({args.schemes[i], scheme.coded_per_value(), scheme.nmse()});
  }
  return plot;
}

void write_plot(const StatsPlot& plot, OutputFile& output) {
  const std::string svg = draw_stats(plot);
  output.write(as_bytes(is_html(output.name()) ? html_page(plot.title, svg) : svg));
  output.commit();
}

// What the numbers lack.
void warn(const StatsArguments& args, const DumpStatistics& statistics) {
  const auto unsorted = std::count_if(statistics.tensors.begin(), statistics.tensors.end(),
                                      [](const TensorSummary& tensor) { return !tensor.summary.sorted; });
  if (unsorted > 0 || !statistics.whole.sorted) {
    args.common.say("the values of all tensors together" +
                    (unsorted == 0 ? std::string() : ", and of " + std::to_string(unsorted) + " alone,") +
                    " do not fit into --memory to be sorted: median, Laplace fit, tail exponent and "
                    "Kolmogorov-Smirnov distances are left out there");
  }
  const uint64_t nonfinite = statistics.whole.moments.nonfinite();
  if (nonfinite > 0) args.common.say(with_commas(nonfinite) + " values are not finite: counted, and in nothing else");
  if (statistics.workers_left_out) {
    args.common.say("more than " + std::to_string(kMaxComparedWorkers) +
                    " workers at a step: cosines are of those with the lowest numbers");
  }
}

void show(const StatsArguments& args, const RandomFile& file, const Source& source, const DumpStatistics& statistics) {
  if (args.csv) {
    std::fputs(section_csv(wide_tensors(statistics, args.schemes)).c_str(), stdout);
    return;
  }
  const StatsReport report = stats_report(statistics, args.schemes);
  if (args.json) {
    print_json(args, file, source, report);
  } else {
    print_tables(args, file, source, statistics, report);
  }
}

// Of the schemes, those that take it have it; null if none does.
std::shared_ptr<const SideInfo> dump_side(const StatsArguments& args, const StatisticsOptions& options) {
  const bool given = !args.side.path.empty();
  bool takes = false;
  for (size_t i = 0; i < options.schemes.size(); ++i) {
    takes |= options.schemes[i].takes_side();
    if (options.schemes[i].takes_side()) require_side(options.schemes[i], args.schemes[i], given);
  }
  if (given && !takes) throw Error(Exit::usage, "--side-info needs a --scheme that takes some: ndqsg");
  return args.side.open(args.input, args.as_bf16, args.common);
}

int stats_of_dump(const StatsArguments& args, const std::shared_ptr<RandomFile>& file) {
  if (!args.against.empty()) throw Error(Exit::usage, "--against goes with a .gradz file, and this is none");
  if (!args.at.empty()) throw Error(Exit::usage, "--at goes with a .gradz file that answers it, and this is none");
  StatisticsOptions options = options_of(args);
  const std::shared_ptr<const SideInfo> side = dump_side(args, options);
  options.side_of = side_of(side);
  const std::unique_ptr<Source> source = open_dump(file, {args.as_bf16, args.drop_unsupported}, args.common);
  require_match(args.only, source->tensors());
  std::optional<OutputFile> plot;
  if (!args.plot.empty()) plot.emplace(args.plot, args.force, file->origin());
  Progress progress;
  DumpStatistics statistics;
  {
    const ProgressLine line(progress, args.common.quiet);
    statistics = dump_statistics(*source, options, progress);
  }
  file->check_unchanged();
  warn(args, statistics);
  if (plot) write_plot(plot_of(args, *file, statistics), *plot);
  show(args, *file, *source, statistics);
  return 0;
}

void print_side(const Section& side, const StoredMessage& message, const MessageStats& stats) {
  print_section(side);
  if (!stats.whole.fit || stats.whole.fit->rho() == 0) return;
  const SideFit& fit = *stats.whole.fit;
  if (fit.beyond() == 0) {
    std::printf("every value is within the limit\n");
  } else {
    bool checked = false;
    for (size_t i = 0; i < message.tensors(); ++i) checked |= is_checked(message.choice(i));
    std::printf("within the limit is every value by %s\n", near_enough(fit, checked).c_str());
  }
}

void print_message(const StatsArguments& args, const StoredMessage& message, const MessageStats& stats) {
  const MessageReport report = message_report(stats, message.schema(), !args.against.empty());
  if (args.csv) {
    std::fputs(section_csv(report.tensors).c_str(), stdout);
    return;
  }
  if (args.json) {
    Json whole = row_json(report.tensors, report.whole);
    for (const char* key : {"name", "scheme", "max_error_index"}) whole.erase(key);
    const Json out = {{"kind", "message"},
                      {"file", escaped(message.file().name())},
                      {"whole", whole},
                      {"tensors", section_json(report.tensors)},
                      {"side_information", section_json(report.side)},
                      {"parts", section_json(report.parts)},
                      {"only_in_file", stats.only_in_file},
                      {"only_in_dump", stats.only_in_dump}};
    std::printf("%s\n", out.dump(2).c_str());
    return;
  }
  std::printf("%s: %s bytes, %s tensors, %s values\n", escaped(message.file().name()).c_str(),
              with_commas(message.file().size()).c_str(), with_commas(message.tensors()).c_str(),
              with_commas(stats.whole.values).c_str());
  Section tensors = report.tensors;
  tensors.rows.push_back(report.whole);
  print_section(tensors);
  print_side(report.side, message, stats);
  print_section(report.parts);
}

void check_message_options(const StatsArguments& args) {
  if (!args.schemes.empty() || !args.only.empty()) {
    throw Error(Exit::usage, "a .gradz file has its schemes: --scheme and --only are for dumps");
  }
  if (!args.plot.empty() && args.against.empty()) {
    throw Error(Exit::usage, "a plot of a .gradz file shows errors: give the dump it was made from with --against");
  }
}

// Names of tensors that have no partner, the first few.
void say_unmatched(const StatsArguments& args, const std::vector<std::string>& names, std::string_view where) {
  constexpr size_t kMost = 5;
  for (size_t i = 0; i < std::min(kMost, names.size()); ++i) {
    args.common.say("only in the " + std::string(where) + ", not compared: " + escaped(names[i]));
  }
  if (names.size() > kMost) args.common.say("and " + std::to_string(names.size() - kMost) + " more");
}

int stats_of_message(const StatsArguments& args, const std::shared_ptr<RandomFile>& file) {
  check_message_options(args);
  const unsigned threads = args.common.thread_count();
  const uint64_t memory = args.common.memory_limit();
  std::shared_ptr<RandomFile> dump_file;
  std::unique_ptr<Source> dump;
  if (!args.against.empty()) {
    dump_file = RandomFile::open(args.against);
    dump = open_dump(dump_file, {args.as_bf16, args.drop_unsupported}, args.common);
  }
  if (!args.side.path.empty() && !dump) {
    throw Error(Exit::usage, "--side-info goes with --against, the dump that the file was made from");
  }
  const std::shared_ptr<const SideInfo> side = args.side.open(args.input, args.as_bf16, args.common);
  const std::shared_ptr<const IndexSet> set = open_set(args.at, args.common);
  std::optional<OutputFile> plot;
  std::vector<Origin> others;
  if (set) others.push_back(InputStream(args.at).origin());
  if (dump_file) others.push_back(dump_file->origin());
  if (!args.plot.empty()) plot.emplace(args.plot, args.force, file->origin(), std::span<const Origin>(others));
  Progress progress;
  std::unique_ptr<StoredMessage> message;
  MessageStats stats;
  {
    const ProgressLine line(progress, args.common.quiet);
    message = std::make_unique<StoredMessage>(file, threads, memory, progress, side, true, set);
    if (dump) require_values(*message);
    stats = message_stats(*message, dump.get(), threads, memory, progress);
  }
  file->check_unchanged();
  if (dump_file) dump_file->check_unchanged();
  say_unmatched(args, stats.only_in_file, "file");
  say_unmatched(args, stats.only_in_dump, "dump");
  if (plot) {
    StatsPlot drawn;
    drawn.title = "error of " + file->name().substr(file->name().rfind('/') + 1);
    drawn.size_name = "bits a value (bytes of the file)";
    drawn.points = message_points(stats);
    write_plot(drawn, *plot);
  }
  print_message(args, *message, stats);
  return 0;
}

int run_stats(const StatsArguments& args) {
  if (!args.plot.empty() && !args.plot.ends_with(".svg") && !is_html(args.plot)) {
    throw Error(Exit::usage, "--plot takes a name that ends in .svg or .html, not '" + escaped(args.plot) + "'");
  }
  const std::shared_ptr<RandomFile> file = RandomFile::open(args.input);
  args.common.say_machine();
  try {
    return is_message(*file) ? stats_of_message(args, file) : stats_of_dump(args, file);
  } catch (Error& error) {
    if (error.code() != Exit::usage) error.in_file(file->name());
    throw;
  }
}

}  // namespace

Command add_stats(CLI::App& root) {
  auto args = std::make_shared<StatsArguments>();
  CLI::App& app = *root.add_subcommand(
      "stats", "how gradients are distributed, what schemes make of them, what a .gradz file takes and loses");
  app.add_option("input", args->input, "the dump (.npy, .npz, HDF5), or a .gradz file; - is standard input")
      ->type_name("DUMP|GRADZ")
      ->required();
  app.add_option("--against", args->against, "of a .gradz file: the dump that it was made from")->type_name("DUMP");
  app.add_option("--scheme", args->schemes, "also encode one message by this scheme, as NAME:KEY=VALUE,...")
      ->type_name("SCHEME")
      ->allow_extra_args(false);
  args->side.declare(app,
                     "the side information of ndqsg, a dump or .gradz file; of a .gradz file --against its dump: also "
                     "how near it is, and what would be near enough");
  app.add_option("--at", args->at, "of a .gradz file: the index set that it answers (compress --at)")->type_name("SET");
  app.add_option("--seed", args->seed, "seed of those messages [1]")->type_name("N");
  app.add_option("--only", args->only, "only tensors named like this GLOB")->type_name("GLOB");
  CLI::Option* json = app.add_flag("--json", args->json, "for programs, in full precision");
  app.add_flag("--csv", args->csv, "for spreadsheets: one row a tensor")->excludes(json);
  app.add_option("--plot", args->plot,
                 "draw the values with both fits, and the schemes' error against their coded bits: OUT.svg or OUT.html")
      ->type_name("SVG|HTML");
  app.add_flag("-f,--force", args->force, "replace an existing plot");
  app.add_flag("--as-bf16", args->as_bf16, "two-byte void or integer elements of .npy and .npz are bfloat16");
  app.add_flag("--drop-unsupported", args->drop_unsupported, "leave out what a .gradz file cannot carry, and say so");
  args->common.declare(app);
  app.footer(
      "The variance is the population's; a normal distribution has kurtosis 3. The Laplace fit is the median and the\n"
      "mean distance from it, the normal fit the mean and the deviation, KS the distance to each. The tail exponent "
      "is\n"
      "Hill's, of the max(10, n/100) largest magnitudes. NMSE is ||x' - x||^2 / ||x||^2, of one message.\n"
      "The entropy is that of each tensor's symbols, one by one; coded are the frames that compress writes with its "
      "default\n"
      "coder, parameters and exceptions included. Of a .gradz file: PSNR is 20 log10((max x - min x) / "
      "rmse).\n"
      "Names with step_N and worker_N or rank_N between slashes give a table by step and worker, and cosines.\n"
      "Examples:\n"
      "  gradcodec stats grads.h5\n"
      "  gradcodec stats grads.gradz --against grads.h5\n"
      "  gradcodec stats w2.gradz --against w2.npz --side-info w1.npz\n"
      "  gradcodec stats grads.npz --scheme dqsg:levels=3 --scheme dither:nmse=0.1 --plot grads.svg --json");
  return {&app, [args] { return run_stats(*args); }};
}

}  // namespace gradcodec
