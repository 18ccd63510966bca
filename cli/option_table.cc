// SPDX-License-Identifier: Apache-2.0
#include "cli/option_table.h"

namespace gradcodec {
namespace {

// "WORD:{a,b}": WORD, and the list in braces, which a check of the parser may have put there.
void set_value(OptionEntry& entry, const std::string& type) {
  const size_t open = type.find('{'), close = type.find('}');
  entry.value = type.substr(0, type.find(':'));
  if (open == std::string::npos || close == std::string::npos) return;
  entry.words = CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry entry;
  entry.positional = option.get_positional();
  if (entry.positional) {
    entry.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  }
  set_value(entry, option.get_type_name());
  const bool flag = option.get_expected_max() == 0;
  entry.value_optional = flag && !entry.words.empty();
  if (entry.value_optional) entry.value = "WORD";
  entry.required = option.get_required();
  entry.repeated = option.get_items_expected_max() > 1;
  for (const CLI::Option* other : option.get_excludes()) {
    if (!other->get_group().empty()) entry.excludes.push_back(other->get_name());
  }
  entry.help = option.get_description();
  return entry;
}

CommandEntry entry_of(const CLI::App& app, const std::string& name) {
  CommandEntry entry = {name, app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) entry.options.push_back(entry_of(*option));
  }
  return entry;
}

}  // namespace

std::vector<CommandEntry> command_table(const CLI::App& root) {
  std::vector<CommandEntry> out = {entry_of(root, "")};
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    out.push_back(entry_of(*app, app->get_name()));
  }
  return out;
}

}  // namespace gradcodec
