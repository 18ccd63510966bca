// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "cli/coding.h"
#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/verify_report.h"
#include "format/canonical.h"
#include "format/verifier.h"

namespace gradcodec {
namespace {

constexpr uint64_t kMaxTrials = 100000;
constexpr uint64_t kMaxMessages = 1000000000;

struct VerifyArguments : CodingArguments {
  CommonOptions common;
  std::string input, against, trials, alpha, margin, messages;
  bool strict = false, json = false;
};

VerifyOptions options_of(const VerifyArguments& args) {
  VerifyOptions options;
  options.compress = args.options(args.common);
  options.trials = args.trials.empty() ? 64 : parse_count(args.trials, "--trials", 1, kMaxTrials);
  if (!args.alpha.empty()) options.alpha = parse_real(args.alpha, "--alpha", 0, 1);
  if (!args.margin.empty()) options.margin = parse_real(args.margin, "--margin", 0, 1e6);
  if (!args.messages.empty()) options.messages = parse_count(args.messages, "--messages", 1, kMaxMessages);
  if (options.compress.id.worker.value_or(0) + options.trials > uint64_t{1} << 32) {
    throw Error(Exit::usage, "--worker is the first of --trials workers, all below 2^32");
  }
  return options;
}

int exit_of(const VerifyArguments& args, const VerifyReport& report) {
  const bool failed = report.broken() || (args.strict && (report.undecided() || !report.canonical()));
  return static_cast<int>(failed ? Exit::check_failed : Exit::ok);
}

// The first bytes of a .gradz file, which no dump begins with.
bool is_message(const RandomFile& file) {
  std::array<std::byte, kMagic.size()> head;
  if (file.size() < head.size()) return false;
  file.read_at(0, head);
  return std::equal(head.begin(), head.end(), std::as_bytes(std::span(kMagic)).begin());
}

int verify_dump(const VerifyArguments& args, const std::shared_ptr<RandomFile>& file) {
  if (!args.against.empty()) throw Error(Exit::usage, "--against goes with a .gradz file, and this is none");
  const VerifyOptions options = options_of(args);
  const std::unique_ptr<Source> source = args.open(file, args.common);
  const std::string scheme = args.scheme.empty() ? std::string(kDefaultScheme) : args.scheme;
  const bool draws = options.compress.scheme.scheme->draws();
  VerifyReport report({file->name(), scheme, options.trials, options.alpha,
                       draws ? std::optional(options.compress.id.seed) : std::nullopt},
                      source->tensors().size(), args.json, args.common.verbose);
  Progress progress;
  {
    const ProgressLine line(progress, args.common.quiet);
    verify_scheme(*source, options, progress, [&](TensorFindings&& findings) { report.add(findings); });
  }
  file->check_unchanged();
  report.finish();
  return exit_of(args, report);
}

// What a file is asked cannot be chosen again.
void check_message_options(const VerifyArguments& args) {
  const bool coding = !args.coder.empty() || !args.level.empty() || !args.seed.empty() || !args.worker.empty() ||
                      !args.step.empty() || !args.chunk.empty() || !args.include.empty() || !args.exclude.empty() ||
                      !args.min_elements.empty();
  if (coding || !args.trials.empty()) {
    throw Error(
        Exit::usage,
        "a .gradz file is one message, and has its scheme, coder, seed and chunks: of the options of coding only "
        "--scheme, as compress was given it, has a place here");
  }
  if (args.against.empty() && !args.scheme.empty()) throw Error(Exit::usage, "--scheme needs the dump: --against DUMP");
}

std::string schemes_of(const Schema& schema) {
  std::string text;
  for (const StoredScheme& scheme : schema.schemes) text += (text.empty() ? "" : ", ") + scheme.text;
  return text;
}

void check_against(const VerifyArguments& args, const StoredMessage& message, Source& dump, VerifyReport& report) {
  const VerifyOptions options = options_of(args);
  const bool given = !args.scheme.empty();
  Progress progress;
  const ProgressLine line(progress, args.common.quiet);
  verify_message(message, dump, given ? &options.compress.scheme : nullptr, options, progress,
                 [&](TensorFindings&& findings) { report.add(findings); });
}

int verify_file(const VerifyArguments& args, const std::shared_ptr<RandomFile>& file) {
  check_message_options(args);
  const unsigned threads = args.common.thread_count();
  const uint64_t memory = args.common.memory_limit();
  Progress progress;
  std::unique_ptr<StoredMessage> message;
  std::vector<Departure> departures;
  {
    const ProgressLine line(progress, args.common.quiet);
    message = std::make_unique<StoredMessage>(file, threads, memory, progress);
    departures = check_canonical(*message, threads, memory, progress);
  }
  const std::optional<uint64_t> seed = message->message().seed;
  const VerifyOptions options = options_of(args);
  VerifyReport report({file->name(), schemes_of(message->schema()), 1, options.alpha, seed},
                      args.against.empty() ? 0 : message->tensors(), args.json, args.common.verbose);
  report.add_file(message->file().size(), message->tensors(), message->message().digests, departures);
  if (!args.against.empty()) {
    const std::shared_ptr<RandomFile> dump_file = RandomFile::open(args.against);
    const std::unique_ptr<Source> dump = args.open(dump_file, args.common);
    check_against(args, *message, *dump, report);
    dump_file->check_unchanged();
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
      ->required();
  app.add_option("--against", args->against, "of a .gradz file: the dump that it was made from");
  app.add_option("--trials", args->trials, "R: messages to encode and decode, each a worker's [64]");
  app.add_option("--alpha", args->alpha, "chance that an honest scheme is called broken, over all tests [1e-6]");
  app.add_option("--margin", args->margin, "bias along x, as a part of x, that does not matter [0.01]");
  app.add_option("--messages", args->messages, "messages whose mean is to gain from more of them [100]");
  app.add_flag("--strict", args->strict,
               "exit code 1 also if anything is undecided, or a file is not in canonical form");
  app.add_flag("--json", args->json, "for programs");
  args->CodingArguments::declare(app);
  args->common.declare(app);
  app.footer(
      "Examples:\n"
      "  gradcodec verify grads.h5 --scheme dqsg:levels=5 --trials 64   R messages through the real path\n"
      "  gradcodec verify grads.gradz                                   checks, digests, canonical form\n"
      "  gradcodec verify grads.gradz --against grads.h5                and what one message can show");
  return {&app, [args] { return run_verify(*args); }};
}

}  // namespace gradcodec
