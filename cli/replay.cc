// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/coding.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/losses.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/replay_report.h"
#include "cli/table.h"
#include "format/crew.h"
#include "format/replay.h"

namespace gradcodec {
namespace {

struct ReplayArguments : CodingArguments {
  CommonOptions common;
  std::string input, layout, steps, top, candidates = "4", csv, plot, gossip;
  std::vector<std::string> schemes;
  bool json = false, force = false, models = false;
};

constexpr ParamSpec kTop = {.kind = ParamSpec::amount,
                            .name = "--top",
                            .help = "how many elements are taken",
                            .min = 1,
                            .max = 0x1p53,
                            .example = "1%"};
constexpr uint64_t kMostCandidates = 1000000, kLastStep = 999999999999999999;

// FIRST-LAST, either of which may be left out, or one number.
void parse_steps(const std::string& text, TraceOptions& options) {
  if (text.empty()) return;
  const size_t dash = text.find('-');
  const std::string first = text.substr(0, dash), last = dash == std::string::npos ? first : text.substr(dash + 1);
  if (first.empty() && last.empty()) throw Error(Exit::usage, "--steps takes FIRST-LAST, FIRST-, -LAST or one number");
  if (!first.empty()) options.first_step = parse_count(first, "--steps", 0, kLastStep);
  if (!last.empty()) options.last_step = parse_count(last, "--steps", 0, kLastStep);
  if (options.first_step > options.last_step)
    throw Error(Exit::usage, "--steps " + text + ": the last is before the first");
}

std::vector<ReplayScheme> schemes_of(const ReplayArguments& args, const Trace& trace) {
  std::vector<ReplayScheme> out;
  bool any = false;
  for (const std::string& text : args.schemes) {
    const bool lacks = !args.loss_attribute.empty() && lacks_losses(text);
    any |= lacks;
    ReplayScheme& scheme = out.emplace_back();
    scheme.text = text;
    scheme.choice = parse_scheme(lacks ? with_any_loss(text) : text);
    if (lacks) scheme.of_message = losses_of_trace(text, args.loss_attribute, trace.source(), trace.first_tensor());
  }
  if (!any && !args.loss_attribute.empty()) {
    throw Error(Exit::usage,
                "--loss-attribute is for a scheme adaquant without loss=... or loss0=..., and none is given");
  }
  return out;
}

ReplayOptions options_of(const ReplayArguments& args) {
  CodingArguments coding = static_cast<const CodingArguments&>(args);
  coding.loss_attribute.clear();  // of what schemes, the trace must be known to say
  if (coding.seed.empty()) coding.seed = "1";
  const CompressOptions usual = coding.options(args.common);
  ReplayOptions options;
  options.coders = usual.coders;
  options.seed = usual.id.seed;
  options.min_elements = usual.min_elements;
  if (!args.top.empty()) options.top = std::get<Amount>(parse_value(kTop, args.top));
  options.candidates = parse_count(args.candidates, "--candidates", 1, kMostCandidates);
  options.models = args.models;
  options.gossip = !args.gossip.empty();
  options.chunk_log2 = usual.chunk_log2;
  options.threads = usual.threads;
  options.memory = usual.memory;
  return options;
}

// What there is, and what is not as one would expect.
void say_trace(const ReplayArguments& args, const Trace& trace, const ReplayOptions& options) {
  for (const std::string& what : trace.left_out()) args.common.say("left out: " + what);
  if (args.layout.empty()) args.common.say("names taken as --layout '" + escaped(trace.layout().text()) + "'");
  if (trace.steps() == 1 && !options.models) {
    args.common.say("one step only: what schemes remember is of no use to them yet");
  }
  if (trace.workers().size() == 1) {
    args.common.say(std::string("one worker only: ") +
                    (options.gossip ? "it has no neighbours, and sends nothing" : "the mean is what it sends"));
  }
  size_t fewer = 0;
  for (size_t step = 0; step < trace.steps(); ++step) fewer += trace.workers_at(step).size() < trace.workers().size();
  if (fewer > 0) {
    args.common.say("at " + with_commas(fewer) + " of " + with_commas(trace.steps()) +
                    " steps workers are missing: the mean is that of those that are there");
  }
}

std::string head_line(const ReplayArguments& args, const RandomFile& file, const Trace& trace, uint64_t seed) {
  const std::vector<uint64_t>& workers = trace.workers();
  std::string line = escaped(file.name()) + ": " + origin_text(trace.source().kind()) + ", " +
                     with_commas(trace.steps()) + (trace.steps() == 1 ? " step" : " steps") + " (" +
                     std::to_string(trace.step(0)) + " to " + std::to_string(trace.step(trace.steps() - 1)) + "), " +
                     with_commas(workers.size()) + (workers.size() == 1 ? " worker, " : " workers, ") +
                     with_commas(trace.tensors().size()) + " tensors, " + with_commas(trace.values()) +
                     " values a message, seed " + std::to_string(seed);
  if (!args.gossip.empty()) line += "; models, by gossip on a ring";
  if (args.models && args.gossip.empty()) line += "; differences of models to the mean of the step before";
  return line;
}

Json json_of(const ReplayArguments& args, const RandomFile& file, const Trace& trace, uint64_t seed,
             const Section& totals, const Section& steps) {
  Json tensors = Json::array();
  for (const TensorInfo& info : trace.tensors()) tensors.push_back({{"name", info.name}, {"shape", info.shape}});
  return {{"kind", "replay"},
          {"file", escaped(file.name())},
          {"origin", origin_text(trace.source().kind())},
          {"layout", trace.layout().text()},
          {"guessed", args.layout.empty()},
          {"seed", seed},
          {"workers", trace.workers()},
          {"tensors", tensors},
          {"values", trace.values()},
          {"left_out", trace.left_out()},
          {"totals", section_json(totals)},
          {"steps", section_json(steps)}};
}

void print_tables(const ReplayArguments& args, const Section& totals, const Section& steps) {
  if (args.common.verbose) print_section(steps);
  print_section(totals);
  std::printf(
      "\nup: whole .gradz files of all workers; down: to all workers, of each the mean as 32 bits a value (dense), as "
      "an\nindex set and 32 bits a value there (sparse), as a .gradz file (sum), or what the rounds of sketches take "
      "(rounds);\ngossip: up is to each neighbour, and nothing comes down\n");
}

int run_replay(const ReplayArguments& args) {
  if (!args.plot.empty() && !args.plot.ends_with(".svg")) {
    throw Error(Exit::usage, "--plot takes a name that ends in .svg, not '" + escaped(args.plot) + "'");
  }
  require_apart({args.csv, args.plot, args.json ? "-" : ""});
  ReplayOptions options = options_of(args);
  TraceOptions wanted;
  wanted.layout = args.layout;
  wanted.drop = args.drop_unsupported;
  parse_steps(args.steps, wanted);
  if (!args.layout.empty()) TraceLayout::parse(args.layout);
  const std::shared_ptr<RandomFile> file = RandomFile::open(args.input);
  args.common.say_machine();
  return in_file(file->name(), [&] {
    Trace trace(args.open(file, args.common), wanted);
    say_trace(args, trace, options);
    options.schemes = schemes_of(args, trace);
    const uint64_t values = trace.values(), seed = options.seed, schemes = options.schemes.size();
    std::optional<OutputFile> csv, plot;
    if (!args.csv.empty()) csv.emplace(args.csv, args.force, file->origin());
    if (!args.plot.empty()) plot.emplace(args.plot, args.force, file->origin());
    Replay replay(trace, std::move(options));
    std::vector<ReplayRow> rows;
    Progress progress;
    for (size_t step = args.models && args.gossip.empty() ? 1 : 0; step < trace.steps(); ++step) {
      progress.total += trace.workers_at(step).size() * values * sizeof(float) * schemes;
    }
    {
      const ProgressLine line(progress, args.common.quiet);
      replay.run([&](const ReplayRow& row) { rows.push_back(row); }, progress);
    }
    file->check_unchanged();
    for (const auto& [scheme, note] : replay.notes()) args.common.say(args.schemes[scheme] + ": " + note);
    const Section totals = replay_totals(replay.totals(), args.schemes),
                  steps = replay_steps(rows, args.schemes, values);
    if (csv) {
      csv->write(as_bytes(section_csv(steps)));
      csv->commit();
    }
    if (plot) {
      plot->write(as_bytes(draw_replay(rows, args.schemes, values, file->name().substr(file->name().rfind('/') + 1))));
      plot->commit();
    }
    if (args.json) {
      std::printf("%s\n", json_of(args, *file, trace, seed, totals, steps).dump(2).c_str());
    } else {
      std::printf("%s\n", head_line(args, *file, trace, seed).c_str());
      print_tables(args, totals, steps);
    }
    return 0;
  });
}

}  // namespace

Command add_replay(CLI::App& root) {
  auto args = std::make_shared<ReplayArguments>();
  CLI::App& app = *root.add_subcommand(
      "replay", "a trace of several steps or workers through schemes, step by step, with what they remember");
  app.add_option("trace", args->input, "the trace (.npz or HDF5); - is standard input")->type_name("DUMP")->required();
  args->CodingArguments::declare(app);
  for (const char* other :
       {"--scheme", "--worker", "--step", "--include", "--exclude", "--nonfinite", "--shared-scale"}) {
    app.remove_option(app.get_option(other));
  }
  app.add_option("--scheme", args->schemes, "how messages are coded, as NAME:KEY=VALUE,...")
      ->type_name("SCHEME")
      ->allow_extra_args(false)
      ->required();
  app.get_option("--seed")->description("seed of the messages [1]");
  app.add_option("--layout", args->layout,
                 "how names are made of {step}, {worker} and {param} [guessed, as step_{step}/worker_{worker}/{param}]")
      ->type_name("TEXT");
  app.add_option("--steps", args->steps, "only these: FIRST-LAST")->type_name("RANGE");
  app.add_option("--top", args->top, "of sketches: how many elements (K, or K%) the server takes in a step")
      ->type_name("K");
  app.add_option("--candidates", args->candidates,
                 "of sketches: the server asks for exact values of so many times as many [4]")
      ->type_name("N");
  app.add_flag("--models", args->models,
               "the tensors are models, not gradients: what is sent is how far each went from the mean of the step "
               "before");
  app.add_option("--gossip", args->gossip,
                 "of models: ring: each worker sends its own to its two neighbours, and takes the mean")
      ->type_name("WORD")
      ->check(CLI::IsMember({"ring"}))
      ->needs("--models");
  app.add_flag("--json", args->json, "for programs, in full precision");
  app.add_option("--csv", args->csv, "write a row a step and scheme to this file")->type_name("CSV");
  app.add_option("--plot", args->plot, "draw bits and errors step by step: OUT.svg")->type_name("SVG");
  app.add_flag("-f,--force", args->force, "replace existing files");
  args->common.declare(app);
  app.footer(
      "NMSE is ||x' - x||^2 / ||x||^2; that of the run is of the sums of all means so far, where feedback shows.\n"
      "Examples:\n"
      "  gradcodec replay trace.h5 --scheme dqsg:levels=5 --scheme ef/topk:k=1% --scheme diana/qsgd:s=4\n"
      "  gradcodec replay trace.h5 --scheme ndqsg:fine=9,coarse=3 --steps 100-200 --csv rows.csv\n"
      "  gradcodec replay trace.h5 --scheme momentum:m=0.9/countsketch:rows=5,cols=5% --top 1% --candidates 4\n"
      "  gradcodec replay models.npz --models --scheme qsparse:k=1% --plot run.svg");
  return {&app, [args] { return run_replay(*args); }};
}

}  // namespace gradcodec
