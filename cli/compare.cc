// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "cli/coding.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/families.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/side.h"
#include "cli/stats_plot.h"
#include "cli/table.h"
#include "format/crew.h"
#include "format/scheme_trial.h"

namespace gradcodec {
namespace {

using Texts = std::vector<std::string>;

struct CompareArguments : CodingArguments {
  CommonOptions common;
  std::string input, nmse, bits, plot;
  std::vector<std::string> schemes;
  bool json = false, csv = false, force = false;
};

// What is asked for: an error of at most so much, or at most so many bits a value. Neither: schemes as they are.
struct Target {
  std::optional<double> nmse, bits;

  std::string text() const {
    if (nmse) return "NMSE " + short_number(*nmse, 6);
    return bits ? short_number(*bits, 6) + " bits a value" : "";
  }
};

struct Row {
  size_t target = 0;
  std::string scheme, coder;
  std::string_view promise;
  SchemeTrial trial;
  bool on_average = false;  // it was told the error that is asked for, and keeps it in the mean over its random numbers
  bool kept = true;         // what was asked for
};

bool is_unbiased(const Row& row) { return row.promise == "unbiased" || row.promise == "exact"; }

std::vector<Target> targets_of(const CompareArguments& args) {
  constexpr double kMost = 1e4;
  std::vector<Target> out;
  for (const std::string& text : args.nmse.empty() ? Texts() : CLI::detail::split(args.nmse, ',')) {
    const double nmse = parse_real(text, "--nmse", 0, kMost);
    if (nmse < 1e-8) throw Error(Exit::usage, "--nmse takes no less than 1e-8, not " + escaped(text));
    out.push_back({nmse, {}});
  }
  for (const std::string& text : args.bits.empty() ? Texts() : CLI::detail::split(args.bits, ',')) {
    out.push_back({{}, parse_real(text, "--bits", 0.01, 16)});
  }
  if (out.empty() && args.schemes.empty()) out = {{0.1, {}}, {0.01, {}}};
  return out;
}

// Runs f; what it throws is said to be of this scheme.
template <typename F>
auto of_scheme(const std::string& text, F f) {
  try {
    return f();
  } catch (const Error& error) {
    throw Error(error.code(), "scheme '" + text + "': " + error.what());
  }
}

// Coder of the fewest bytes where a tensor's scales say most of what there is to say; no --level has it.
constexpr const char* kSmallCoder = "model";

// Tries schemes on the dump, each text by each coder once. Without a coder: by that of --coder or --level.
class Trials {
 public:
  Trials(const CompareArguments& args, Source& source) : args_(args), source_(source) {}

  CompressOptions options_of(const std::string& text, const std::string& coder = "") const {
    CodingArguments coding = static_cast<const CodingArguments&>(args_);
    coding.scheme = text;
    if (coding.seed.empty()) coding.seed = "1";
    if (!coder.empty()) coding.coder = coder;
    return coding.options(args_.common);
  }

  uint64_t element_bytes() const {
    uint64_t bytes = 0;
    for (const TensorInfo& info : source_.tensors()) bytes += info.byte_size();
    return bytes;
  }

  // Whether any tensor is left to schemes: of floats, and not ruled out by an option.
  bool any_lossy() const {
    const CompressOptions options = options_of(std::string(kDefaultScheme));
    const Schema schema = plan_schema(source_, options);
    return std::any_of(schema.schemes.begin(), schema.schemes.end(),
                       [&](const StoredScheme& stored) { return stored.text == options.scheme.stored_text(); });
  }

  // Whether the coder is left to compare.
  bool chooses_coder() const { return args_.coder.empty() && args_.level.empty(); }

  const SchemeTrial& trial(const std::string& text, const std::string& coder = "") {
    const auto found = trials_.find({text, coder});
    if (found != trials_.end()) return found->second;
    Progress progress;
    const auto run = [&] { return try_scheme(source_, options_of(text, coder), progress); };
    return trials_.emplace(std::pair(text, coder), of_scheme(text, run)).first->second;
  }

  Row row(size_t target, const std::string& text, const std::string& coder = "") {
    const CompressOptions options = options_of(text, coder);
    const std::string_view promise = of_scheme(text, [&] { return promise_of(source_, options); });
    return {target, text, std::string(options.coder_of(*options.scheme.scheme).name()), promise, trial(text, coder)};
  }

 private:
  const CompareArguments& args_;
  Source& source_;
  std::map<std::pair<std::string, std::string>, SchemeTrial> trials_;
};

bool keeps(const Target& target, const SchemeTrial& trial) {
  if (target.nmse) return trial.keeps(*target.nmse);
  return !target.bits || trial.bits.value_or(0) <= *target.bits;
}

std::vector<Family> families_of(const Target& target) {
  return target.nmse ? families_for_nmse(*target.nmse) : families_for_bits(*target.bits);
}

// Whether the scheme is told the very error that is asked for.
bool on_average(const Target& target, const std::string& text) {
  if (!target.nmse) return false;
  const std::vector<Family> families = families_of(target);
  return std::any_of(families.begin(), families.end(),
                     [&](const Family& family) { return family.asked && family.settings.front() == text; });
}

// Of a family the setting of the fewest bits whose error is small enough, or that of the least error within the bits;
// if there is none, the nearest one. By the small coder where that makes the file smaller.
Row best_of(Trials& trials, const Family& family, const std::vector<Target>& targets, size_t number) {
  const Target& target = targets[number];
  const auto first = family.settings.begin(), last = family.settings.end();
  auto at = first;
  if (!family.asked) {
    at = std::partition_point(first, last, [&](const std::string& text) {
      return keeps(target, trials.trial(text)) == target.bits.has_value();
    });
    if (target.bits ? at != first : at == last) --at;
  }
  std::string coder;
  if (trials.chooses_coder()) {
    // What it saves may leave room for settings of a smaller error.
    while (target.bits && at + 1 != last && keeps(target, trials.trial(at[1], kSmallCoder))) ++at;
    if (trials.trial(*at, kSmallCoder).bytes < trials.trial(*at).bytes) coder = kSmallCoder;
  }
  Row row = trials.row(number, *at, coder);
  row.on_average = family.asked && target.nmse;
  row.kept = row.on_average || keeps(target, row.trial);
  return row;
}

// Fewest bits first; for so many bits, the least error first.
void sort_rows(std::vector<Row>& rows, const std::vector<Target>& targets) {
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    if (a.target != b.target) return a.target < b.target;
    if (a.kept != b.kept) return a.kept;
    if (targets[a.target].bits) return a.trial.nmse.value_or(0) < b.trial.nmse.value_or(0);
    return a.trial.bytes < b.trial.bytes;
  });
}

std::vector<Row> search(Trials& trials, const std::vector<Target>& targets, Progress& progress) {
  std::vector<Row> rows;
  const uint64_t unit = trials.element_bytes();
  const bool lossy = trials.any_lossy();
  std::vector<std::vector<Family>> families(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    if (lossy) families[i] = families_of(targets[i]);
    progress.total += (families[i].size() + 1) * unit;
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    for (const Family& family : families[i]) {
      rows.push_back(best_of(trials, family, targets, i));
      progress.done += unit;
    }
    rows.push_back(trials.row(i, "raw"));
    rows.back().kept = keeps(targets[i], rows.back().trial);
    progress.done += unit;
  }
  return rows;
}

void check_schemes(const CompareArguments& args, const Trials& trials) {
  for (const std::string& text : args.schemes) {
    const CompressOptions options = trials.options_of(text);
    if (options.scheme.remembers()) {
      throw Error(Exit::usage, "scheme '" + text + "' remembers, and compare is of one message: gradcodec replay");
    }
    if (options.scheme.takes_side()) {
      throw Error(Exit::usage, "scheme '" + text + "' takes side information: gradcodec stats --side-info, or replay");
    }
    require_set(text, false);
  }
}

// The rows of what was named, for each target once.
std::vector<Row> named(Trials& trials, const CompareArguments& args, const std::vector<Target>& targets,
                       Progress& progress) {
  std::vector<Row> rows;
  const uint64_t unit = trials.element_bytes();
  progress.total += args.schemes.size() * unit;
  for (const std::string& text : args.schemes) {
    const Row row = trials.row(0, text);
    for (size_t i = 0; i < targets.size(); ++i) {
      rows.push_back(row);
      rows.back().target = i;
      rows.back().on_average = on_average(targets[i], text);
      rows.back().kept = rows.back().on_average || keeps(targets[i], row.trial);
    }
    progress.done += unit;
  }
  return rows;
}

double megabytes(const SchemeTrial& trial, double seconds) {
  return seconds > 0 ? static_cast<double>(trial.element_bytes) / seconds / 1e6 : 0;
}

Cell cell(const std::optional<double>& number) { return number ? Cell(*number) : Cell(); }

// `timed`: with speeds, which are never the same twice.
Section section_of(const std::vector<Row>& rows, const std::vector<Target>& targets, bool timed) {
  Section out;
  out.columns = {{"most_nmse", "", kNoTable},
                 {"most_bits", "", kNoTable},
                 {"kept", "", kNoTable},
                 {"scheme", "scheme", kEveryTable},
                 {"promise", "promise", kEveryTable},
                 {"coder", "coder", 0},
                 {"bytes", "bytes", 0},
                 {"bits_per_value", "bits/value", 0, 4},
                 {"nmse", "NMSE", 0, 4},
                 {"max_error", "largest error", 0, 3}};
  if (timed) {
    out.columns.push_back({"encode_mb_per_s", "encode, MB/s", 0, 3});
    out.columns.push_back({"decode_mb_per_s", "decode, MB/s", 0, 3});
  }
  for (const Row& row : rows) {
    const Target& target = targets[row.target];
    const SchemeTrial& trial = row.trial;
    out.rows.push_back({cell(target.nmse), cell(target.bits), row.kept ? "yes" : "no", row.scheme,
                        std::string(row.promise), row.coder, trial.bytes, cell(trial.bits), cell(trial.nmse),
                        cell(trial.max_error)});
    if (!timed) continue;
    out.rows.back().emplace_back(megabytes(trial, trial.write_seconds));
    out.rows.back().emplace_back(megabytes(trial, trial.read_seconds));
  }
  return out;
}

// What to take for a target: the first unbiased row, and the first one if that is another. Rows are sorted. Where all
// is stored exactly whatever the scheme, nothing but raw.
struct Advice {
  const Row *unbiased = nullptr, *biased = nullptr;
};

Advice advice_of(const std::vector<Row>& rows, size_t target) {
  Advice out;
  for (const Row& row : rows) {
    if (row.target != target || !row.kept || out.unbiased != nullptr) continue;
    if (row.promise == "exact" && row.scheme != "raw") continue;
    if (is_unbiased(row)) out.unbiased = &row;
    if (!is_unbiased(row) && out.biased == nullptr) out.biased = &row;
  }
  return out;
}

std::string measured(const Row& row, const Target& target) {
  std::string out = short_number(row.trial.bits.value_or(0), 3) + " bits a value, NMSE " +
                    short_number(row.trial.nmse.value_or(0), 3);
  if (row.on_average) out += " (" + short_number(*target.nmse, 6) + " on average)";
  return out;
}

// The options that make the row's file, as they are typed.
std::string command_of(CodingArguments coding, const Row& row) {
  if (row.coder == kSmallCoder) coding.coder = row.coder;
  return "--scheme " + row.scheme + coding.given();
}

void print_advice(const CompareArguments& args, const Target& target, const Advice& advice) {
  const auto told = [&](const Row& row) {
    return command_of(static_cast<const CodingArguments&>(args), row) + ": " + measured(row, target);
  };
  if (advice.unbiased == nullptr) {
    std::printf("for %s on this dump there is no unbiased scheme among these\n", target.text().c_str());
  } else {
    std::printf("for %s on this dump take %s, %s\n", target.text().c_str(), told(*advice.unbiased).c_str(),
                std::string(advice.unbiased->promise).c_str());
  }
  if (advice.biased == nullptr) return;
  std::printf("  %s, but not unbiased (%s; needs ef/ and --state to be made up for): %s\n",
              target.nmse ? "smaller" : "nearer", std::string(advice.biased->promise).c_str(),
              told(*advice.biased).c_str());
}

void print_rows(const std::vector<Row>& rows, const std::vector<Target>& targets, size_t target,
                const std::string& title, bool timed) {
  std::vector<Row> kept;
  std::string others;
  for (const Row& row : rows) {
    if (row.target != target) continue;
    if (row.kept) {
      kept.push_back(row);
    } else {
      others += (others.empty() ? "" : ", ") + row.scheme + " (" + measured(row, targets[target]) + ")";
    }
  }
  Section section = section_of(kept, targets, timed);
  section.title = title;
  print_section(section);
  if (!others.empty()) std::printf("not within that: %s\n", others.c_str());
}

Json advice_json(const std::vector<Row>& rows, const std::vector<Target>& targets) {
  Json out = Json::array();
  for (size_t i = 0; i < targets.size(); ++i) {
    const Advice advice = advice_of(rows, i);
    Json entry;
    entry["most_nmse"] = targets[i].nmse ? Json(*targets[i].nmse) : Json();
    entry["most_bits"] = targets[i].bits ? Json(*targets[i].bits) : Json();
    entry["unbiased"] = advice.unbiased != nullptr ? Json(advice.unbiased->scheme) : Json();
    entry["unbiased_coder"] = advice.unbiased != nullptr ? Json(advice.unbiased->coder) : Json();
    entry["biased"] = advice.biased != nullptr ? Json(advice.biased->scheme) : Json();
    entry["biased_coder"] = advice.biased != nullptr ? Json(advice.biased->coder) : Json();
    out.push_back(std::move(entry));
  }
  return out;
}

std::string plot_of(const RandomFile& file, const std::vector<Row>& rows) {
  StatsPlot plot;
  plot.title = "schemes on " + file.name().substr(file.name().rfind('/') + 1);
  plot.size_name = "bits a value (bytes of the file)";
  std::map<std::string, bool> seen;
  for (const Row& row : rows) {
    if (!seen.emplace(row.scheme, true).second) continue;
    plot.points.push_back(
        {row.scheme, row.trial.bits.value_or(kAbsent), row.trial.keeps(0) ? 0 : row.trial.nmse.value_or(kAbsent)});
  }
  return draw_stats(plot);
}

void show(const CompareArguments& args, const RandomFile& file, const Source& source, const std::vector<Row>& rows,
          const std::vector<Target>& asked, const Trials& trials) {
  // Of schemes that are named and no target there is one table all the same.
  const std::vector<Target> targets = asked.empty() ? std::vector<Target>(1) : asked;
  if (args.csv) {
    std::fputs(section_csv(section_of(rows, targets, false)).c_str(), stdout);
    return;
  }
  const uint64_t seed = trials.options_of("raw").id.seed;
  uint64_t values = 0;
  bool floats = false;
  for (const TensorInfo& info : source.tensors()) {
    values += info.size();
    floats |= info.dtype.is_float();
  }
  if (args.json) {
    const Json out = {{"kind", "compare"},
                      {"file", escaped(file.name())},
                      {"origin", origin_text(source.kind())},
                      {"values", values},
                      {"tensors", source.tensors().size()},
                      {"seed", seed},
                      {"schemes", section_json(section_of(rows, targets, true))},
                      {"advice", advice_json(rows, asked)}};
    std::printf("%s\n", out.dump(2).c_str());
    return;
  }
  std::printf("%s: %s, %s tensors, %s values, seed %llu; whole .gradz files, errors of one message\n",
              escaped(file.name()).c_str(), origin_text(source.kind()).c_str(),
              with_commas(source.tensors().size()).c_str(), with_commas(values).c_str(),
              static_cast<unsigned long long>(seed));
  const bool timed = isatty(STDOUT_FILENO) != 0;
  if (!args.schemes.empty()) {
    std::vector<Row> all;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(all), [](const Row& row) { return row.target == 0; });
    for (Row& row : all) row.kept = true;
    print_rows(all, targets, 0, "", timed);
  } else {
    for (size_t i = 0; i < asked.size(); ++i) print_rows(rows, targets, i, "for " + asked[i].text(), timed);
  }
  if (!asked.empty()) std::printf("\n");
  if (!trials.any_lossy()) {
    std::printf("no float tensors%s: every scheme stores them exactly, as raw does\n",
                floats ? " but those that the options leave out" : "");
    return;
  }
  for (size_t i = 0; i < asked.size(); ++i) print_advice(args, asked[i], advice_of(rows, i));
}

int run_compare(const CompareArguments& args) {
  if (!args.plot.empty() && !args.plot.ends_with(".svg")) {
    throw Error(Exit::usage, "--plot takes a name that ends in .svg, not '" + escaped(args.plot) + "'");
  }
  const std::vector<Target> asked = targets_of(args);
  const std::shared_ptr<RandomFile> file = RandomFile::open(args.input);
  args.common.say_machine();
  return in_file(file->name(), [&] {
    const std::unique_ptr<Source> source = args.open(file, args.common);
    Trials trials(args, *source);
    check_schemes(args, trials);
    std::optional<OutputFile> plot;
    if (!args.plot.empty()) plot.emplace(args.plot, args.force, file->origin());
    std::vector<Row> rows;
    Progress progress;
    {
      const ProgressLine line(progress, args.common.quiet);
      rows = args.schemes.empty() ? search(trials, asked, progress)
                                  : named(trials, args, asked.empty() ? std::vector<Target>(1) : asked, progress);
    }
    file->check_unchanged();
    sort_rows(rows, asked.empty() ? std::vector<Target>(1) : asked);
    if (plot) {
      plot->write(as_bytes(plot_of(*file, rows)));
      plot->commit();
    }
    show(args, *file, *source, rows, asked, trials);
    return 0;
  });
}

}  // namespace

Command add_compare(CLI::App& root) {
  auto args = std::make_shared<CompareArguments>();
  CLI::App& app = *root.add_subcommand("compare", "which scheme to take: bits and errors of many, on this dump");
  app.add_option("input", args->input, "the dump (.npy, .npz, HDF5); - is standard input")
      ->type_name("DUMP")
      ->required();
  app.add_option("--nmse", args->nmse, "errors that are wanted, at most, as parts of the energy [0.1,0.01]")
      ->type_name("X,...");
  app.add_option("--bits", args->bits, "or bits a value that are wanted, at most: the least error within them")
      ->type_name("X,...");
  args->CodingArguments::declare(app);
  for (const char* other : {"--scheme", "--worker", "--step", "--shared-scale", "--loss-attribute"}) {
    app.remove_option(app.get_option(other));
  }
  app.add_option("--scheme", args->schemes,
                 "these as they are instead of the best settings of many, as NAME:KEY=VALUE,...")
      ->type_name("SCHEME")
      ->allow_extra_args(false);
  app.get_option("--seed")->description("seed of the messages [1]");
  CLI::Option* json = app.add_flag("--json", args->json, "for programs, in full precision, with speeds");
  app.add_flag("--csv", args->csv, "for spreadsheets: a row a scheme and target")->excludes(json);
  app.add_option("--plot", args->plot, "draw errors against bits: OUT.svg")->type_name("SVG");
  app.add_flag("-f,--force", args->force, "replace an existing plot");
  args->common.declare(app);
  app.footer(
      "Every figure is of a whole .gradz file that was written, read again and decoded; the whole dump is coded,\n"
      "about a hundred and twenty times for each NMSE unless schemes are named. NMSE is ||x' - x||^2 / ||x||^2 of\n"
      "all tensors together. Schemes that have no parameter for the error are given the coarsest setting that keeps\n"
      "it; dither, choose and lattice are given the error itself, which they keep on average. Without --coder and\n"
      "--level the best setting of each is by the coder model if that makes the file smaller. What a scheme\n"
      "promises is said of these tensors. Not tried unless named: grid and threshold, whose parameters are in units\n"
      "of the values, and bq, for privacy. What remembers or takes side information is for gradcodec replay.\n"
      "Speeds, on a terminal and in JSON, are with files and checks, of one run each; gradcodec bench is more\n"
      "exact.\n"
      "Examples:\n"
      "  gradcodec compare grads.h5\n"
      "  gradcodec compare grads.npz --nmse 0.05 --plot schemes.svg\n"
      "  gradcodec compare grads.npz --bits 2 --exclude '*.bias' --level 2\n"
      "  gradcodec compare grads.npz --scheme dither:nmse=0.1 --scheme topk:k=1%/qsgd:s=4 --json");
  return {&app, [args] { return run_compare(*args); }};
}

}  // namespace gradcodec
