// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/coding.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "codec/kernels/kernels.h"
#include "format/crew.h"
#include "format/speed.h"
#include "format/speed_input.h"

namespace gradcodec {
namespace {

constexpr uint64_t kCacheLike = uint64_t{64} << 20;  // bytes of input that a cache may hold some of
constexpr double kGiga = 1e9;
constexpr double kUnsteady = 0.2;  // spread of memcpy that an idle machine seldom has

struct BenchArguments {
  CommonOptions common;
  std::string input, size = "25000000", repeats = "5", seed = "1";
  std::vector<std::string> schemes, coders;
  bool json = false, as_bf16 = false;
};

// What is measured on.
struct Input {
  std::string description;
  std::vector<float> values;
};

// The speed of schemes and coders, as sections.
struct BenchReport {
  Section copies, rows;
};

SpeedOptions options_of(const BenchArguments& args) {
  SpeedOptions options;
  for (const std::string& text : args.schemes) options.schemes.push_back(parse_scheme(text));
  for (const std::string& name : args.coders) options.coders.push_back(&coder_named(name));
  for (const SchemeChoice& scheme : options.schemes) {
    const bool has_pack = std::count(args.coders.begin(), args.coders.end(), "pack") > 0;
    if (scheme.is_private() && !args.coders.empty() && !has_pack) {
      throw Error(Exit::usage, "scheme '" + scheme.stored_text() + "' goes by the coder pack alone: --coder pack");
    }
  }
  if (args.coders.empty()) options.coders.assign(all_coders().begin(), all_coders().end());
  options.seed = parse_count(args.seed, "--seed", 0, ~uint64_t{0});
  options.threads = args.common.thread_count();
  options.repeats = static_cast<unsigned>(parse_count(args.repeats, "--repeats", 1, 1000));
  options.memory = args.common.memory_limit();
  return options;
}

Input made(const BenchArguments& args, uint64_t size) {
  if (size == 0) throw Error(Exit::usage, "--size 0 stands for as many values as a dump has: name one");
  check_speed_memory(size, args.common.memory_limit());
  return {"made in memory", made_input(size)};
}

Input of_dump(const BenchArguments& args, uint64_t size) {
  const std::shared_ptr<RandomFile> file = RandomFile::open(args.input);
  return in_file(file->name(), [&] {
    const std::unique_ptr<Source> source = open_dump(file, {args.as_bf16, true}, args.common);
    const uint64_t there = float_values(*source);
    if (there == 0) throw Error(Exit::bad_input, "holds no values of a float type");
    if (size == 0) size = there;
    check_speed_memory(size, args.common.memory_limit());
    Input input{escaped(file->name()), dump_input(*source, size)};
    file->check_unchanged();
    const std::string values = with_commas(there) + " values";
    if (there < size) input.description += ", its " + values + " again and again";
    if (there > size) input.description += ", the first of its " + values;
    if (there < size && there < uint64_t{1} << kDefaultChunkLog2) {
      args.common.say("the dump is smaller than a chunk: coders may see that it is repeated");
    }
    return input;
  });
}

void append_rate(std::vector<Column>& columns, const std::string& key, const std::string& heading) {
  columns.push_back({key + "_gb_per_s", heading + ", GB/s", 0, 3});
  columns.push_back({key + "_min_gb_per_s", "", kNoTable});
  columns.push_back({key + "_max_gb_per_s", "", kNoTable});
  columns.push_back({key + "_spread", "+-", 0, 1});
}

void append_rate(std::vector<Cell>& row, const std::optional<Rate>& rate) {
  if (!rate) return row.resize(row.size() + 4);
  for (const double number : {rate->median / kGiga, rate->least / kGiga, rate->most / kGiga, rate->spread()}) {
    row.emplace_back(number);
  }
}

BenchReport report_of(const BenchArguments& args, const SpeedOptions& options, const Speed& speed, uint64_t values) {
  BenchReport out;
  out.copies.columns = {{"threads", "threads", kEveryTable}};
  append_rate(out.copies.columns, "memcpy", "memcpy");
  append_rate(out.copies.rows.emplace_back(std::vector<Cell>{uint64_t{1}}), speed.copy);
  if (speed.copy_threads) {
    append_rate(out.copies.rows.emplace_back(std::vector<Cell>{uint64_t{options.threads}}), speed.copy_threads);
  }
  std::vector<Column>& columns = out.rows.columns;
  columns = {{"scheme", "scheme", kEveryTable}, {"coder", "coder", kEveryTable}};
  append_rate(columns, "prepare", "prepare");
  for (const std::string key : {"encode", "decode"}) {
    append_rate(columns, key, key);
    columns.push_back({key + "_share_of_memcpy", "of memcpy", 0, 2});
  }
  columns.insert(columns.end(), {{"coded_bytes", "", kNoTable},
                                 {"bits_per_value", "bits/value", 1},
                                 {"entropy_bits_per_value", "entropy, bits/value", 1},
                                 {"nmse", "NMSE", 1}});
  const double copied = speed.copy_alike().median;
  const auto per_value = [values](double bits) { return bits / static_cast<double>(values); };
  for (const SpeedRow& row : speed.rows) {
    std::vector<Cell>& cells = out.rows.rows.emplace_back();
    cells = {args.schemes[row.scheme], std::string(options.coders[row.coder]->name())};
    append_rate(cells, row.prepare);
    for (const Rate& rate : {row.encode, row.decode}) {
      append_rate(cells, rate);
      cells.emplace_back(rate.median / copied);
    }
    cells.emplace_back(row.coded_bytes);
    cells.emplace_back(per_value(8 * static_cast<double>(row.coded_bytes)));
    cells.emplace_back(per_value(row.symbol_bits));
    cells.emplace_back();
    if (row.nmse) cells.back() = *row.nmse;
  }
  return out;
}

void print_report(const SpeedOptions& options, const Input& input, const BenchReport& report) {
  std::printf("%s float32 (%s MB), %s\n", with_commas(input.values.size()).c_str(),
              short_number(static_cast<double>(input.values.size()) * sizeof(float) / 1e6, 4).c_str(),
              input.description.c_str());
  std::printf("kernels %s, %u thread%s, %u rounds; GB/s of float32, +- half the spread over the median\n",
              kernels::current_target().c_str(), options.threads, options.threads == 1 ? "" : "s", options.repeats);
  print_section(report.copies);
  print_section(report.rows);
  std::printf("every digest was the encoder's, in every round\n");
}

void print_json(const SpeedOptions& options, const Input& input, const BenchReport& report) {
  const Json out = {{"kind", "bench"},
                    {"input", input.description},
                    {"values", input.values.size()},
                    {"input_bytes", input.values.size() * sizeof(float)},
                    {"kernels", kernels::current_target()},
                    {"threads", options.threads},
                    {"rounds", options.repeats},
                    {"chunk_values", uint64_t{1} << kDefaultChunkLog2},
                    {"seed", options.seed},
                    {"digests", "equal"},
                    {"memcpy", section_json(report.copies)},
                    {"combinations", section_json(report.rows)}};
  std::printf("%s\n", out.dump(2).c_str());
}

int run_bench(BenchArguments args) {
  if (args.schemes.empty()) args.schemes = {"dqsg:levels=3", "dqsg:levels=255", std::string(kDefaultScheme)};
  const SpeedOptions options = options_of(args);
  const uint64_t size = parse_count(args.size, "--size", 0, ~uint64_t{0});
  args.common.say_machine();
  const Input input = args.input.empty() ? made(args, size) : of_dump(args, size);
  if (input.values.size() * sizeof(float) < kCacheLike) {
    args.common.say("this little may lie in a cache: these are not the speeds of memory");
  }
  Progress progress;
  Speed speed;
  {
    const ProgressLine line(progress, args.common.quiet);
    speed = measure_speed(input.values, options, progress);
  }
  if (speed.copy_alike().spread() > kUnsteady) {
    args.common.say("memcpy's own speed varied by more than a fifth: is the machine busy? --repeats takes more rounds");
  }
  const BenchReport report = report_of(args, options, speed, input.values.size());
  if (args.json) {
    print_json(options, input, report);
  } else {
    print_report(options, input, report);
  }
  return 0;
}

}  // namespace

Command add_bench(CLI::App& root) {
  auto args = std::make_shared<BenchArguments>();
  args->common.threads = "1";
  CLI::App& app = *root.add_subcommand("bench", "how fast schemes and coders are on this machine, beside memcpy");
  app.add_option("input", args->input, "a dump (.npy, .npz, HDF5); - is standard input [values made in memory]")
      ->type_name("DUMP");
  app.add_option("--scheme", args->schemes, "as NAME:KEY=VALUE,... [dqsg:levels=3, dqsg:levels=255, dither:nmse=0.1]")
      ->type_name("SCHEME")
      ->allow_extra_args(false);
  app.add_option("--coder", args->coders, "one alone [every one there is]")
      ->type_name("CODER")
      ->allow_extra_args(false);
  app.add_option("--repeats", args->repeats, "rounds, of which medians are taken [5]")->type_name("N");
  app.add_option("--size", args->size, "values: the dump's again and again, or its first; 0: all, once [25000000]")
      ->type_name("N");
  app.add_option("--seed", args->seed, "seed of the messages [1]")->type_name("N");
  app.add_flag("--json", args->json, "for programs, in full precision");
  app.add_flag("--as-bf16", args->as_bf16, "two-byte void or integer elements of .npy and .npz are bfloat16");
  args->common.declare(app);
  app.footer(
      "One thread unless -T says otherwise. The values lie in memory, as one tensor of float32, and no file is "
      "touched:\n"
      "the rest is the path of compress and decompress, in chunks of 262,144 values, digests and checks included.\n"
      "Preparing (by one thread always) finds scales. Each round times memcpy of the same bytes and everything else "
      "once.\n"
      "Shares are of memcpy by as many threads. Bits are those of frames; the entropy is that of the symbols, one by "
      "one.\n"
      "Side information (ndqsg) is the values themselves. Without a dump: " +
      std::string(kMadeInput) +
      ".\n"
      "Examples:\n"
      "  gradcodec bench\n"
      "  gradcodec bench grads.h5 --scheme dqsg:levels=5 --coder pack -T2 --json");
  return {&app, [args] { return run_bench(*args); }};
}

}  // namespace gradcodec
