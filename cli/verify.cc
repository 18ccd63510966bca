// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cli/coding.h"
#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/verify_report.h"
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
  const bool failed = report.broken() || (args.strict && report.undecided());
  return static_cast<int>(failed ? Exit::check_failed : Exit::ok);
}

int run_verify(const VerifyArguments& args) {
  const VerifyOptions options = options_of(args);
  const std::shared_ptr<RandomFile> file = RandomFile::open(args.input);
  args.common.say_machine();
  try {
    const std::unique_ptr<Source> source = args.open(file, args.common);
    const std::string scheme = args.scheme.empty() ? std::string(kDefaultScheme) : args.scheme;
    const bool draws = options.compress.scheme.scheme->draws();
    VerifyReport report(
        {file->name(), scheme, options.trials, options.alpha, draws ? std::to_string(options.compress.id.seed) : ""},
        source->tensors().size(), args.json, args.common.verbose);
    Progress progress;
    {
      const ProgressLine line(progress, args.common.quiet);
      verify_scheme(*source, options, progress, [&](TensorFindings&& findings) { report.add(findings); });
    }
    file->check_unchanged();
    report.finish();
    return exit_of(args, report);
  } catch (Error& error) {
    if (error.code() != Exit::usage) error.in_file(file->name());
    throw;
  }
}

}  // namespace

Command add_verify(CLI::App& root) {
  auto args = std::make_shared<VerifyArguments>();
  CLI::App& app = *root.add_subcommand("verify", "are a scheme's promises kept, on these tensors?");
  app.add_option("input", args->input, "the dump to try a scheme on; - is standard input")->required();
  app.add_option("--trials", args->trials, "R: messages to encode and decode, each a worker's [64]");
  app.add_option("--alpha", args->alpha, "chance that an honest scheme is called broken, over all tests [1e-6]");
  app.add_option("--margin", args->margin, "bias along x, as a part of x, that does not matter [0.01]");
  app.add_option("--messages", args->messages, "messages whose mean is to gain from more of them [100]");
  app.add_flag("--strict", args->strict, "exit code 1 if anything is undecided, too");
  app.add_flag("--json", args->json, "for programs");
  args->CodingArguments::declare(app);
  args->common.declare(app);
  app.footer(
      "Examples:\n"
      "  gradcodec verify grads.h5 --scheme dqsg:levels=5 --trials 64");
  return {&app, [args] { return run_verify(*args); }};
}

}  // namespace gradcodec
