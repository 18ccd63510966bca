// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <sstream>

#include "cli/command.h"
#include "cli/option_table.h"
#include "codec/registry.h"
#include "codec/synopsis.h"

namespace gradcodec {
namespace {

struct Item {
  const char *name, *text;
};

constexpr Item kEnvironment[] = {
    {"TMPDIR", "where temporary files lie: what a pipe brings, and what must be read twice [/tmp]"},
    {"GRADCODEC_KERNELS",
     "the instruction set to use (--verbose says which it is); the bytes are the same for each of them"},
};
constexpr Item kFiles[] = {
    {"*.npy, *.npz, *.h5, *.hdf5", "dumps: tensors of NumPy and HDF5"},
    {"*.gradz", "messages: tensors coded by a scheme; the format is specified in spec/ of the source"},
    {"*.bare", "messages without names and shapes, which a schema file has"},
    {"gradcodec-hdf5", "the program that reads and writes HDF5, beside gradcodec or on the PATH"},
};

// Text in which troff sees nothing but text.
std::string roff(std::string_view text) {
  std::string out;
  bool line_starts = true;
  for (const char c : text) {
    if (line_starts && c == '.') out += "\\&";
    line_starts = c == '\n';
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

void print_item(const std::string& tag, std::string_view text) {
  std::printf(".TP\n%s\n%s\n", tag.c_str(), roff(text).c_str());
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

void print_option(const OptionEntry& option) {
  std::string tag;
  for (const std::string& name : option.names) {
    tag += (tag.empty() ? "" : ", ") + (option.positional ? italic(name) : bold(name));
  }
  if (option.value_optional) {
    tag += "[=" + italic(option.value) + "]";
  } else if (!option.value.empty()) {
    tag += " " + italic(option.value);
  }
  std::string text = option.help;
  const auto add = [&](const std::string& more) { text += "; " + more; };
  if (!option.words.empty()) add("one of " + joined(option.words, ", "));
  if (!option.excludes.empty()) add("not with " + joined(option.excludes, ", "));
  if (option.repeated) add(option.positional ? "one or more" : "may be given again");
  if (option.required) add("required");
  print_item(tag, text);
}

// Lines that are indented stay as they are, the others make paragraphs.
void print_footer(const std::string& footer) {
  std::istringstream lines(footer);
  bool verbatim = false;
  if (!footer.empty()) std::printf(".PP\n");
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with("  ");
    if (indented != verbatim) std::printf(indented ? ".PP\n.nf\n" : ".fi\n.PP\n");
    if (line == "Examples:") std::printf(".PP\n");
    verbatim = indented;
    std::printf("%s\n", roff(line).c_str());
  }
  if (verbatim) std::printf(".fi\n");
}

std::string synopsis(const CommandEntry& command) {
  std::string out = bold("gradcodec " + command.name) + " [" + italic("OPTIONS") + "]";
  for (const OptionEntry& option : command.options) {
    if (!option.positional) continue;
    const std::string name = italic(option.names[0]) + (option.repeated ? " ..." : "");
    out += option.required ? " " + name : " [" + name + "]";
  }
  return out;
}

void print_command(const CommandEntry& command) {
  std::printf(".SS %s\n%s\n.PP\n%s\n", roff(command.name).c_str(), synopsis(command).c_str(),
              roff(command.summary).c_str());
  for (const OptionEntry& option : command.options) print_option(option);
  print_footer(command.footer);
}

void print_schemes() {
  std::printf(
      ".SH SCHEMES\nN is a whole number, F any number; what stands in brackets may be left out.\n%s says more.\n",
      bold("gradcodec schemes NAME").c_str());
  for (const Scheme* scheme : all_schemes()) {
    const std::string params = short_params(*scheme);
    const bool behind = params.starts_with("[/") || params.starts_with("/");
    const std::string text = std::string(scheme->summary()) + " (" + promise_word(*scheme) + ")";
    print_item(bold(scheme->name()) + roff(params.empty() || behind ? params : ":" + params), text);
  }
  std::printf(".SH CODERS\n");
  for (const Coder* coder : all_coders()) print_item(bold(coder->name()), coder->summary());
}

int run_man(const CLI::App& root) {
  const std::vector<CommandEntry> table = command_table(root);
  std::printf(".TH GRADCODEC 1 \"\" \"gradcodec %s\" \"User Commands\"\n.ad l\n.nh\n", GRADCODEC_VERSION);
  std::printf(".SH NAME\ngradcodec \\- compress gradients under schemes that keep their promises\n.SH SYNOPSIS\n");
  for (size_t i = 1; i < table.size(); ++i) std::printf("%s\n.br\n", synopsis(table[i]).c_str());
  std::printf(".SH DESCRIPTION\n%s\n", roff(table[0].summary).c_str());
  std::printf(
      "A dump is a file of tensors (HDF5, .npy, .npz); %s makes a message of it, a .gradz file, and %s a dump "
      "again.\n",
      bold("compress").c_str(), bold("decompress").c_str());
  std::printf(".SH OPTIONS\n");
  for (const OptionEntry& option : table[0].options) print_option(option);
  std::printf(".SH COMMANDS\n");
  for (size_t i = 1; i < table.size(); ++i) print_command(table[i]);
  print_schemes();
  std::printf(".SH EXIT STATUS\n");
  for (const ExitMeaning& exit : kExits) print_item(bold(std::to_string(static_cast<int>(exit.code))), exit.meaning);
  std::printf(".SH ENVIRONMENT\n");
  for (const Item& item : kEnvironment) print_item(bold(item.name), item.text);
  std::printf(".SH FILES\n");
  for (const Item& item : kFiles) print_item(italic(item.name), item.text);
  std::printf(".SH SEE ALSO\n.BR zstd (1)\n");
  return 0;
}

}  // namespace

Command add_man(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("man", "this program's manual page, for man");
  app.footer("Examples:\n  gradcodec man | man -l -\n  gradcodec man > ~/.local/share/man/man1/gradcodec.1");
  return {&app, [&root] { return run_man(root); }};
}

}  // namespace gradcodec
