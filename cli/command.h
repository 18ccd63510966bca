// A subcommand: one file that declares its options, and does it. Parsing is not doing: `run` is called after everything
// has been parsed, and takes nothing from CLI11.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace gradcodec {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // returns the exit code; throws Error
};

Command add_aggregate(CLI::App& root);
Command add_bench(CLI::App& root);
Command add_compress(CLI::App& root);
Command add_conform(CLI::App& root);
Command add_decompress(CLI::App& root);
Command add_forget(CLI::App& root);
Command add_info(CLI::App& root);
Command add_replay(CLI::App& root);
Command add_schemes(CLI::App& root);
Command add_stats(CLI::App& root);
Command add_verify(CLI::App& root);

}  // namespace gradcodec
