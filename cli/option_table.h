// What the parser knows of commands and options, for those who tell it elsewhere than --help does: the manual page and
// the completions of shells.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace gradcodec {

struct OptionEntry {
  std::vector<std::string> names;     // "-o", "--output"; of a positional its name alone
  bool positional = false;            //
  std::string value;                  // what is given, kinds joined by |: "DUMP|GRADZ", "N"; empty: nothing is
  std::vector<std::string> words;     // of a value that is one of a list: the list
  bool value_optional = false;        // then it is given as --NAME=WORD
  bool required = false;              //
  bool repeated = false;              // may be given again
  std::vector<std::string> excludes;  // names of options that it does not go with
  std::string help;
};

struct CommandEntry {
  std::string name;  // empty: the program itself
  std::string summary, footer;
  std::vector<OptionEntry> options;  // those that --help shows, in its order
};

// The program, then its commands, in the order of --help.
std::vector<CommandEntry> command_table(const CLI::App& root);

}  // namespace gradcodec
