// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <span>

#include "cli/command.h"
#include "cli/option_table.h"
#include "codec/presets.h"
#include "codec/registry.h"

namespace gradcodec {
namespace {

using Words = std::vector<std::string>;

// Which names files have that an option's value names, by the kind that --help shows.
struct KindOfFile {
  std::string_view kind, suffixes;  // no suffixes: any file
};
constexpr KindOfFile kFileKinds[] = {{"DUMP", "npy npz h5 hdf5"},
                                     {"GRADZ", "gradz bare"},
                                     {"SET", "indices"},
                                     {"STATE", "state"},
                                     {"SCHEMA", ""},
                                     {"SVG", "svg"},
                                     {"HTML", "html"},
                                     {"CSV", "csv"}};

std::string joined(const Words& words, std::string_view between = " ") {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : std::string(between)) + word;
  return out;
}

struct Files {
  bool any = false;      // the value names a file
  std::string suffixes;  // of the kinds that have some, with spaces between
};

Files files_of(const std::string& value) {
  Files out;
  for (const std::string& part : CLI::detail::split(value, '|')) {
    for (const auto& [kind, suffixes] : kFileKinds) {
      if (part != kind) continue;
      out.any = true;
      if (!suffixes.empty()) out.suffixes += (out.suffixes.empty() ? "" : " ") + std::string(suffixes);
    }
  }
  return out;
}

// The words that a value is one of; of an option --scheme there is more to it.
Words words_of(const OptionEntry& option) {
  if (option.value != "CODER" && option.value != "NAME") return option.words;
  Words out;
  for (const Coder* coder : all_coders()) out.emplace_back(coder->name());
  if (option.value == "CODER") return out;
  for (const Scheme* scheme : all_schemes()) out.emplace_back(scheme->name());
  for (const Preset& preset : all_presets()) out.emplace_back(preset.name);
  return out;
}

// What a user may write of a scheme.
struct SchemeWords {
  std::string name;
  std::span<const ParamSpec> params;
  bool alone = true, below = false;  // whether it needs no more than its name; whether one may stand behind it
};

std::vector<SchemeWords> scheme_words() {
  std::vector<SchemeWords> out;
  const auto add = [&](std::string_view name, std::span<const ParamSpec> params, Inner inner) {
    bool needs = false;
    for (const ParamSpec& spec : params) needs |= spec.required;
    out.push_back({std::string(name), params, !needs && inner != Inner::required, !needs && inner != Inner::none});
  };
  for (const Scheme* scheme : all_schemes()) add(scheme->name(), scheme->params(), scheme->inner());
  for (const Preset& preset : all_presets()) add(preset.name, preset.params, Inner::none);
  return out;
}

// Beginnings of a stage: "raw", "dqsg:", "ef/"; those that are not whole end in : or /.
Words stages() {
  Words out;
  for (const SchemeWords& scheme : scheme_words()) {
    if (scheme.alone) out.push_back(scheme.name);
    if (!scheme.params.empty()) out.push_back(scheme.name + ":");
    if (scheme.below) out.push_back(scheme.name + "/");
  }
  return out;
}

// Of `case`, a line for each scheme with parameters: NAME) before KEY= KEY= after ;;
std::string params_cases(const std::string& before, const std::string& after) {
  std::string out;
  for (const auto& [name, params, alone, below] : scheme_words()) {
    if (params.empty()) continue;
    Words keys;
    for (const ParamSpec& spec : params) keys.push_back(std::string(spec.name) + "=");
    out += "      " + name + ") " + before + joined(keys) + after + " ;;\n";
  }
  return out;
}

// Likewise for each parameter that is one of a list of words: NAME:KEY) before WORD WORD after ;;
std::string choices_cases(const std::string& before, const std::string& after) {
  std::string out;
  for (const auto& [name, params, alone, below] : scheme_words()) {
    for (const ParamSpec& spec : params) {
      if (spec.kind != ParamSpec::choice) continue;
      const Words choices = CLI::detail::split(std::string(spec.choices), '|');
      out += "      " + name + ":" + std::string(spec.name) + ") " + before + joined(choices) + after + " ;;\n";
    }
  }
  return out;
}

std::string with(std::string text, std::string_view place, std::string_view what) {
  const size_t at = text.find(place);
  return at == std::string::npos ? text : text.replace(at, place.size(), what);
}

// What stands between @ is put in below.
constexpr const char* kBash = R"(# bash completion of gradcodec, made by: gradcodec completions bash

# Each of these takes what is typed so far and appends what it may become to COMPREPLY.
_gradcodec_words() {
  local typed=$1 word
  shift
  for word; do
    [[ $word == "$typed"* ]] && COMPREPLY+=("$word")
  done
}

# Files of these suffixes, and folders; every file if there is none such.
_gradcodec_files() {
  local typed=$1 file suffix found=
  shift
  compopt -o filenames 2>/dev/null
  while IFS= read -r file; do
    for suffix; do
      [[ $file == *."$suffix" ]] && found=yes && COMPREPLY+=("$file")
    done
  done < <(compgen -f -- "$typed")
  while IFS= read -r file; do
    if [[ ! $found || -d $file ]]; then COMPREPLY+=("$file"); fi
  done < <(compgen -f -- "$typed")
}

# NAME:KEY=VALUE,.../NAME...
_gradcodec_scheme() {
  local head= stage=$1 name key before keys=() words=()
  if [[ $stage == */* ]]; then head=${stage%/*}/ stage=${stage##*/}; fi
  if [[ $stage != *:* ]]; then
    words=(@stages@)
    _gradcodec_words "$1" "${words[@]/#/$head}"
    return
  fi
  name=${stage%%:*} key=${stage##*[:,]}
  before=$head${stage%"$key"}
  if [[ $key == *=* ]]; then
    key=${key%%=*}
    case $name:$key in
@choices@    esac
    _gradcodec_words "$1" "${words[@]/#/$before$key=}"
    return
  fi
  case $name in
@params@  esac
  for key in "${keys[@]}"; do
    [[ $stage == *[:,]"$key"* ]] || _gradcodec_words "$1" "$before$key"
  done
}

_gradcodec() {
  local IFS=$' \t\n'
  # Bash has split words at : and =; here they are whole again.
  local words=() i word= piece= joins=
  for ((i = 0; i <= COMP_CWORD; i++)); do
    piece=${COMP_WORDS[i]}
    if [[ $i -gt 1 && ($joins || $piece == [:=]*) ]]; then word+=$piece; else words+=("$word") word=$piece; fi
    if [[ $piece == *[:=] ]]; then joins=yes; else joins=; fi
  done
  words+=("$word")
  words=("${words[@]:1}")
  local typed=$word command=${words[1]} option= value=$word head= options= kind=()
  COMPREPLY=()
  if ((${#words[@]} == 2)); then
    _gradcodec_words "$typed" @commands@
    return
  fi
  case $command in
@options@  esac
  if [[ $typed == --*=* ]]; then
    option=${typed%%=*} head=$option= value=${typed#*=}
  else
    option=${words[${#words[@]} - 2]}
    [[ " $options " == *" $option "* ]] || option=
  fi
  [[ $option ]] && _gradcodec_kind
  if [[ ! $head && ${kind[0]-} == optional ]]; then kind=(); fi
  if ((${#kind[@]} == 0)); then
    if [[ $typed == -* ]]; then
      _gradcodec_words "$typed" $options
      return
    fi
    option=
    _gradcodec_kind
  fi
  case ${kind[0]-} in
    words | optional) _gradcodec_words "$value" "${kind[@]:1}" ;;
    files) _gradcodec_files "$value" "${kind[@]:1}" ;;
    folders)
      compopt -o filenames 2>/dev/null
      while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "$value")
      ;;
    scheme) _gradcodec_scheme "$value" ;;
  esac
  for word in "${COMPREPLY[@]}"; do
    [[ $word == *[:=/] && ${kind[0]-} == scheme ]] && compopt -o nospace 2>/dev/null
  done
  # Of a word that bash has split, only the last piece is replaced.
  [[ $piece == [:=]* ]] && piece=
  word=${typed%"$piece"}
  COMPREPLY=("${COMPREPLY[@]/#/$head}")
  COMPREPLY=("${COMPREPLY[@]#"$word"}")
}

# What value an option takes, or, without an option, what the command does.
_gradcodec_kind() {
  case $command:$option in
@kinds@  esac
}

complete -F _gradcodec gradcodec
)";

std::string bash_kind(const OptionEntry& option) {
  if (const Words words = words_of(option); !words.empty()) {
    return (option.value_optional ? "optional " : "words ") + joined(words);
  }
  if (option.value == "SCHEME") return "scheme";
  if (option.value == "FOLDER") return "folders";
  if (const Files files = files_of(option.value); files.any) {
    return files.suffixes.empty() ? "files" : "files " + files.suffixes;
  }
  return "text";
}

std::string bash_script(const std::vector<CommandEntry>& table) {
  Words commands;
  std::string options, kinds;
  for (const CommandEntry& command : table) {
    Words names;
    for (const OptionEntry& option : command.options) {
      if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
      if (command.name.empty() || option.value.empty()) continue;
      Words patterns;
      for (const std::string& name : option.names)
        patterns.push_back(command.name + ":" + (option.positional ? "" : name));
      kinds += "    " + joined(patterns, " | ") + ") kind=(" + bash_kind(option) + ") ;;\n";
    }
    if (command.name.empty()) {
      commands.insert(commands.end(), names.begin(), names.end());
    } else {
      commands.push_back(command.name);
      options += "    " + command.name + ") options='" + joined(names) + "' ;;\n";
    }
  }
  std::string script = with(kBash, "@stages@", joined(stages()));
  script = with(script, "@choices@", choices_cases("words=(", ")"));
  script = with(script, "@params@", params_cases("keys=(", ")"));
  script = with(script, "@commands@", joined(commands));
  script = with(script, "@options@", options);
  return with(script, "@kinds@", kinds);
}

constexpr const char* kZsh = R"(#compdef gradcodec
# zsh completion of gradcodec, made by: gradcodec completions zsh

# NAME:KEY=VALUE,.../NAME...
_gradcodec_scheme() {
  local name key
  compset -P '*/'
  if [[ $PREFIX != *:* ]]; then
    compadd -S '' -- @stages@
    return
  fi
  name=${PREFIX%%:*}
  compset -P '*[:,]'
  if [[ $PREFIX == *=* ]]; then
    key=${PREFIX%%=*}
    compset -P '*='
    case $name:$key in
@choices@    esac
    return
  fi
  case $name in
@params@  esac
}

_gradcodec() {
  local curcontext=$curcontext state line
  local -a commands
  commands=(
@commands@  )
  _arguments -C -s \
@program@    '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe command commands ;;
    argument)
      case $words[1] in
@options@      esac
      ;;
  esac
}

if [[ $funcstack[1] == _gradcodec ]]; then
  _gradcodec "$@"
else
  compdef _gradcodec gradcodec
fi
)";

// In single quotes of a shell; what _arguments and _describe take as their own signs is escaped.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionEntry& option) {
  if (const Words words = words_of(option); !words.empty()) return "(" + joined(words) + ")";
  if (option.value == "SCHEME") return "_gradcodec_scheme";
  if (option.value == "FOLDER") return "_files -/";
  if (const Files files = files_of(option.value); files.any) {
    if (files.suffixes.empty()) return "_files";
    return "_files -g \"*.(" + joined(CLI::detail::split(files.suffixes, ' '), "|") + ")\"";
  }
  return " ";
}

// Lines of _arguments: one a name of the option.
std::string zsh_option(const OptionEntry& option, const std::string& indent) {
  const std::string value = zsh_text(option.value) + ":" + zsh_action(option);
  if (option.positional) return indent + "'" + (option.repeated ? "*" : "1") + ":" + value + "' \\\n";
  const bool one = option.names.size() == 1;
  Words apart = option.excludes;
  if (!option.repeated && !one) apart.insert(apart.end(), option.names.begin(), option.names.end());
  std::string out;
  for (const std::string& name : option.names) {
    out += indent + "'";
    if (!apart.empty()) out += "(" + joined(apart) + ")";
    if (option.repeated) out += "*";
    out += name;
    const bool is_long = name.starts_with("--");
    if (!option.value.empty()) out += option.value_optional ? "=-" : is_long ? "=" : "+";
    out += "[" + zsh_text(option.help) + "]";
    if (!option.value.empty()) out += (option.value_optional ? "::" : ":") + value;
    out += "' \\\n";
  }
  return out;
}

std::string zsh_script(const std::vector<CommandEntry>& table) {
  std::string commands, program, options;
  for (const CommandEntry& command : table) {
    std::string lines;
    const std::string indent(command.name.empty() ? 4 : 12, ' ');
    for (const OptionEntry& option : command.options) lines += zsh_option(option, indent);
    if (command.name.empty()) {
      program = lines;
      continue;
    }
    commands += "    '" + command.name + ":" + zsh_text(command.summary) + "'\n";
    lines.erase(lines.size() - 3);  // the last line goes on nowhere
    options += "        " + command.name + ")\n          _arguments -s \\\n" + lines + "\n          ;;\n";
  }
  std::string script = with(kZsh, "@stages@", joined(stages()));
  script = with(script, "@choices@", choices_cases("compadd -- ", ""));
  script = with(script, "@params@", params_cases("compadd -S '' -- ", ""));
  script = with(script, "@commands@", commands);
  script = with(script, "@program@", program);
  return with(script, "@options@", options);
}

}  // namespace

Command add_completions(CLI::App& root) {
  auto shell = std::make_shared<std::string>();
  CLI::App& app = *root.add_subcommand("completions", "a script that lets a shell complete this program's words");
  app.add_option("shell", *shell, "which shell")->check(CLI::IsMember({"bash", "zsh"}))->type_name("WORD")->required();
  app.footer(
      "Examples:\n"
      "  eval \"$(gradcodec completions bash)\"                      (in ~/.bashrc)\n"
      "  gradcodec completions zsh > ~/.zfunc/_gradcodec           (a folder of $fpath)");
  return {&app, [&root, shell] {
            const std::vector<CommandEntry> table = command_table(root);
            std::fputs((*shell == "bash" ? bash_script(table) : zsh_script(table)).c_str(), stdout);
            return 0;
          }};
}

}  // namespace gradcodec
