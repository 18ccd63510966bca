// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cli/command.h"
#include "cli/common.h"
#include "cli/numbers.h"
#include "format/unsent.h"

namespace gradcodec {
namespace {

struct ForgetArguments {
  CommonOptions common;
  std::string state, at;
};

int run_forget(const ForgetArguments& args) {
  const uint64_t memory = args.common.memory_limit();
  StateFile state(args.state, memory);  // locked from here on
  const IndexSet taken = read_index_set(args.at, args.common.thread_count(), memory);
  try {
    check_round(state.facts(), state.remembered(), taken);
  } catch (Error& error) {
    error.in_file(args.state);
    throw;
  }
  forget_taken(state.remembered(), taken);
  state.rewrite();
  args.common.say(escaped(args.state) + ": " + with_commas(taken.count()) + " elements of step " +
                  std::to_string(*taken.step) + " were taken, and are forgotten with their momentum");
  return 0;
}

}  // namespace

Command add_forget(CLI::App& root) {
  auto args = std::make_shared<ForgetArguments>();
  CLI::App& app = *root.add_subcommand("forget", "what a server took of a sketch leaves the state of a worker");
  app.add_option("state", args->state, "the state that compress --scheme momentum/countsketch:... --state keeps")
      ->type_name("STATE")
      ->required();
  app.add_option("--at", args->at, "the index set of what was taken (decompress --top K --indices TAKEN)")
      ->type_name("SET")
      ->required();
  args->common.declare(app);
  app.footer(
      "Sketched-SGD, once a step and worker, after the sketch of the step and before the next one: the places that "
      "were\n"
      "taken are 0 in v and u. The state is replaced as a whole; the same set again changes nothing. A set of another\n"
      "step, or of other tensors, is refused.\n"
      "Examples:\n"
      "  gradcodec forget worker3.state --at taken.indices");
  return {&app, [args] { return run_forget(*args); }};
}

}  // namespace gradcodec
