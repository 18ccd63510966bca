// A subcommand: one file that declares its options, and does it. Parsing is not doing: `run` is called after everything
// has been parsed, and takes nothing from CLI11.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "codec/error.h"

namespace gradcodec {

struct ExitMeaning {
  Exit code;
  const char* meaning;
};
inline constexpr ExitMeaning kExits[] = {
    {Exit::ok, "done"},
    {Exit::check_failed, "a check failed"},
    {Exit::usage, "wrong usage"},
    {Exit::bad_input, "bad or damaged input"},
    {Exit::io, "I/O failure"},
    {Exit::limit, "a limit would be passed"},
    {Exit::unsupported, "valid but not supported here"},
    {Exit::bug, "a bug"},
};

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // returns the exit code; throws Error
};

Command add_aggregate(CLI::App& root);
Command add_bench(CLI::App& root);
Command add_compare(CLI::App& root);
Command add_completions(CLI::App& root);
Command add_compress(CLI::App& root);
Command add_conform(CLI::App& root);
Command add_decompress(CLI::App& root);
Command add_forget(CLI::App& root);
Command add_info(CLI::App& root);
Command add_man(CLI::App& root);
Command add_replay(CLI::App& root);
Command add_schemes(CLI::App& root);
Command add_stats(CLI::App& root);
Command add_verify(CLI::App& root);

}  // namespace gradcodec
