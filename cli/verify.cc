// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "cli/coding.h"
#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/side.h"
#include "cli/verify_report.h"
#include "format/canonical.h"
#include "format/verifier.h"

namespace gradcodec {
namespace {

constexpr uint64_t kMaxTrials = 100000;
constexpr uint64_t kMaxMessages = 1000000000;

struct VerifyArguments : CodingArguments {
  CommonOptions common;
  SideArguments side;
  std::string input, against, state, at, trials, alpha, margin, messages;
  bool strict = false, json = false;
};

VerifyOptions options_of(const VerifyArguments& args) {
  VerifyOptions options;
  options.compress = args.options(args.common);
  options.trials = args.trials.empty() ? 64 : parse_count(args.trials, "--trials", 1, kMaxTrials);
  if (!args.alpha.empty()) options.alpha = parse_real(args.alpha, "--alpha", 1e-300, 0.5);
  if (!args.margin.empty()) options.margin = parse_real(args.margin, "--margin", 0, 1e6);
  if (!args.messages.empty()) options.messages = parse_count(args.messages, "--messages", 1, kMaxMessages);
  return options;
}

void check_workers(const VerifyOptions& options) {
  if (options.compress.id.worker.value_or(0) + options.trials > uint64_t{1} << 32) {
    throw Error(Exit::usage, "the message's worker is the first of --trials workers, all below 2^32");
  }
}

Telling telling_of(const VerifyArguments& args) {
  if (args.json) return Telling::json;
  if (args.common.quiet) return Telling::brief;
  return args.common.verbose ? Telling::full : Telling::normal;
}

int exit_of(const VerifyArguments& args, const VerifyReport& report) {
  const bool failed = report.broken() || (args.strict && !report.decided());
  return static_cast<int>(failed ? Exit::check_failed : Exit::ok);
}

// Runs `verify`, which adds to the report; if it fails, what is done is told.
template <typename Verify>
void tell(VerifyReport& report, Verify verify) {
  try {
    verify();
  } catch (...) {
    report.interrupted();
    throw;
  }
}

int verify_dump(const VerifyArguments& args, const std::shared_ptr<RandomFile>& file) {
  if (!args.against.empty()) throw Error(Exit::usage, "--against goes with a .gradz file, and this is none");
  if (!args.at.empty()) throw Error(Exit::usage, "--at goes with a .gradz file that answers it, and this is none");
  VerifyOptions options = options_of(args);
  require_side(options.compress.scheme, args.scheme, !args.side.path.empty());
  const std::shared_ptr<const SideInfo> side = args.side.open(args.input, args.as_bf16, args.common);
  options.compress.side_of = side_of(side);
  const std::unique_ptr<Source> source = args.open(file, args.common);
  const Schema schema = plan_schema(*source, options.compress);
  args.complete(options.compress, *source, schema, file->name());
  std::unique_ptr<StateFile> state;
  if (!args.state.empty()) {
    state = StateFile::look(args.state, args.demand(options.compress, schema), options.compress.memory);
    options.compress.id = {state->facts().seed, state->facts().worker, state->facts().step};
    options.compress.memory_of = [&state](const TensorInfo& info) { return state->remembered().of(info.name); };
  }
  check_workers(options);
  const Scheme& scheme = *options.compress.scheme.scheme;
  VerifySubject subject;
  subject.input = file->name();
  subject.scheme = args.scheme.empty() ? std::string(kDefaultScheme) : args.scheme;
  subject.trials = options.trials;
  subject.alpha = options.alpha;
  if (options.compress.scheme.draws() || scheme.is_private()) subject.seed = options.compress.id.seed;
  subject.exact = scheme.carries_bytes();
  if (args.scheme.empty()) args.common.say("scheme " + subject.scheme + "; --scheme chooses");
  if (state) {
    subject.scheme += " from " + escaped(args.state) + ", step " + std::to_string(state->facts().step);
    args.common.say("tested is what stands behind '" + std::string(scheme.name()) +
                    "', on the values that it codes in that step: the dump's and what is remembered");
  } else if (options.compress.scheme.remembers()) {
    args.common.say("scheme '" + std::string(scheme.name()) +
                    "' is tested as in its first step; --state FILE: in a later one");
  }
  if (scheme.is_private()) {
    subject.scheme += " (rehearsed as " + options.compress.scheme.rehearsed().stored_text() + ")";
    args.common.say("secret noise cannot be made again: the trials have test noise of the seed, by the same law");
  }
  VerifyReport report(subject, source->tensors().size(), telling_of(args));
  Progress progress;
  tell(report, [&] {
    const ProgressLine line(progress, args.common.quiet);
    verify_scheme(*source, options, progress, [&](TensorFindings&& findings) { report.add(findings); });
    file->check_unchanged();
    if (side) side->file().check_unchanged();
  });
  report.finish();
  return exit_of(args, report);
}

// What a file is asked cannot be chosen again.
void check_message_options(const VerifyArguments& args) {
  if (!args.state.empty()) throw Error(Exit::usage, "--state goes with a dump: the state that it is to be coded from");
  const bool coding = !args.coder.empty() || !args.level.empty() || !args.seed.empty() || !args.worker.empty() ||
                      !args.step.empty() || !args.chunk.empty() || !args.include.empty() || !args.exclude.empty() ||
                      !args.min_elements.empty() || !args.loss_attribute.empty();
  if (coding || !args.trials.empty()) {
    throw Error(
        Exit::usage,
        "a .gradz file is one message, and has its scheme, coder, seed and chunks: of the options of coding only "
        "--scheme, as compress was given it, has a place here");
  }
  if (args.scheme.empty() && !args.shared_scale.empty()) {
    throw Error(Exit::usage, "--shared-scale needs --scheme, as compress was given it");
  }
  const bool testing = !args.scheme.empty() || !args.alpha.empty() || !args.margin.empty() || !args.messages.empty();
  if (args.against.empty() && testing) {
    throw Error(Exit::usage, "--scheme, --alpha, --margin and --messages need the dump: --against DUMP");
  }
}

std::string schemes_of(const Schema& schema) {
  std::string text;
  for (const StoredScheme& scheme : schema.schemes) text += (text.empty() ? "" : ", ") + scheme.text;
  return text;
}

int verify_file(const VerifyArguments& args, const std::shared_ptr<RandomFile>& file) {
  check_message_options(args);
  const VerifyOptions options = options_of(args);
  const unsigned threads = options.compress.threads;
  const uint64_t memory = options.compress.memory;
  // Opened first: a wrong name should not cost the reading of a large file.
  const std::shared_ptr<RandomFile> dump_file = args.against.empty() ? nullptr : RandomFile::open(args.against);
  const std::unique_ptr<Source> dump = dump_file ? args.open(dump_file, args.common) : nullptr;
  const std::shared_ptr<const SideInfo> side = args.side.open(args.input, args.as_bf16, args.common);
  const std::shared_ptr<const IndexSet> set = open_set(args.at, args.common);
  Progress progress;
  std::unique_ptr<StoredMessage> message;
  std::vector<Departure> departures;
  {
    const ProgressLine line(progress, args.common.quiet);
    message = std::make_unique<StoredMessage>(file, threads, memory, progress, side, false, set);
    departures = check_canonical(*message, threads, memory, progress);
  }
  if (dump) require_values(*message);
  bool decoded = true;
  for (size_t i = 0; i < message->tensors() && !dump; ++i) {
    if (!message->lacks_side(i)) continue;
    decoded = false;
    args.common.say("tensor '" + escaped(message->info(i).name) + "' needs side information, and was not decoded");
  }
  VerifySubject subject;
  subject.input = file->name();
  subject.scheme = args.scheme.empty() ? schemes_of(message->schema()) : args.scheme;
  subject.alpha = options.alpha;
  subject.seed = message->message().seed;
  subject.one_message = true;
  VerifyReport report(subject, dump ? message->tensors() : 0, telling_of(args));
  report.add_file(message->file().size(), message->tensors(), message->message().digests, decoded, departures);
  if (dump) {
    tell(report, [&] {
      Progress testing;
      const ProgressLine line(testing, args.common.quiet);
      verify_message(*message, *dump, args.scheme.empty() ? nullptr : &options.compress.scheme, options, testing,
                     [&](TensorFindings&& findings) { report.add(findings); });
      dump_file->check_unchanged();
    });
  }
  file->check_unchanged();
  report.finish();
  return exit_of(args, report);
}

int run_verify(const VerifyArguments& args) {
  const std::shared_ptr<RandomFile> file = RandomFile::open(args.input);
  args.common.say_machine();
  try {
    return is_message(*file) ? verify_file(args, file) : verify_dump(args, file);
  } catch (Error& error) {
    if (error.code() != Exit::usage) error.in_file(file->name());
    throw;
  }
}

}  // namespace

Command add_verify(CLI::App& root) {
  auto args = std::make_shared<VerifyArguments>();
  CLI::App& app = *root.add_subcommand("verify", "are a scheme's promises kept, on these tensors?");
  app.add_option("input", args->input, "the dump to try a scheme on, or a .gradz file; - is standard input")
      ->type_name("DUMP|GRADZ")
      ->required();
  app.add_option("--against", args->against, "of a .gradz file: the dump that it was made from")->type_name("DUMP");
  app.add_option("--state", args->state, "of a dump: what the scheme remembers, as compress has it; it is not changed")
      ->type_name("STATE");
  args->side.declare(app, "the side information of ndqsg, a dump or .gradz file");
  app.add_option("--at", args->at, "of a .gradz file: the index set that it answers (compress --at)")->type_name("SET");
  app.add_option("--trials", args->trials, "R: messages to encode and decode, each a worker's [64]")->type_name("N");
  app.add_option("--alpha", args->alpha, "chance that an honest scheme is called broken, over all tests [1e-6]")
      ->type_name("X");
  app.add_option("--margin", args->margin, "bias along x, as a part of x, that does not matter [0.01]")->type_name("X");
  app.add_option("--messages", args->messages, "messages whose mean is to gain from more of them [100]")
      ->type_name("N");
  app.add_flag("--strict", args->strict, "exit code 1 also if anything is undecided, not compared or not canonical");
  app.add_flag("--json", args->json, "for programs");
  args->CodingArguments::declare(app);
  args->common.declare(app);
  app.footer(
      "Verdicts: broken; kept (a fault as large as `smallest found` would have been found nine times in ten);\n"
      "undecided (a fault above the margin could have been missed; R that would do); proved (without chance, for\n"
      "every message drawn); below resolution (float32 may hide it); approximate (no law is declared: a number that\n"
      "decides nothing); not covered. Bounds and intervals are those of\n"
      "the test, but that of `unbiased overall` is an approximate 95 %. -q prints what is broken and the summary.\n"
      "What is tested and why it is sure: spec/verify.md. Exit code 1 if anything is broken.\n"
      "Examples:\n"
      "  gradcodec verify grads.h5 --scheme dqsg:levels=5 --trials 64   R messages through the real path\n"
      "  gradcodec verify s7.h5 --scheme ef/topk:k=1% --state w0.state  with what a worker remembers\n"
      "  gradcodec verify grads.gradz                                   checks, digests, canonical form\n"
      "  gradcodec verify grads.gradz --against grads.h5                and what one message can show");
  return {&app, [args] { return run_verify(*args); }};
}

}  // namespace gradcodec
