// SPDX-License-Identifier: Apache-2.0
#include "cli/command_template.h"

#include <algorithm>

#include "codec/error.h"

namespace gradcodec {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(Exit::usage, "the command " + text); }

struct Character {
  char value;
  bool quoted;
};
using RawWord = std::vector<Character>;

// As a shell splits a line without any other special characters.
std::vector<RawWord> split(std::string_view text) {
  std::vector<RawWord> words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    const bool escapes =
        c == '\\' && quote != '\'' && i + 1 < text.size() && (quote == 0 || text[i + 1] == '"' || text[i + 1] == '\\');
    if (escapes) {
      words.back().push_back({text[++i], true});
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back().push_back({c, quote != 0});
    }
  }
  if (quote != 0) refuse(std::string("has a quote ") + quote + " without an end");
  return words;
}

bool is_plain(const Character& c, char value) { return c.value == value && !c.quoted; }

std::string text_of(const RawWord& word) {
  std::string out;
  for (const Character& c : word) out += c.value;
  return out;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "{" : ", {") + name + "}";
  return out;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What stands in braces.
std::vector<std::string> names_in(const std::string& word, const std::vector<std::string>& known) {
  std::vector<std::string> out;
  for (size_t at = word.find('{'); at != std::string::npos; at = word.find('{', at + 1)) {
    const size_t end = word.find('}', at);
    if (end == std::string::npos) refuse("has a { without its } in '" + escaped(word) + "'");
    out.push_back(word.substr(at + 1, end - at - 1));
    if (!contains(known, out.back())) {
      refuse("has {" + escaped(out.back()) + "}; there are " + listed(known));
    }
  }
  return out;
}

std::string filled(const std::string& word, const CommandTemplate::Values& values) {
  std::string out;
  size_t from = 0;
  for (size_t at = word.find('{'); at != std::string::npos; at = word.find('{', from)) {
    const size_t end = word.find('}', at);
    out += word.substr(from, at - from) + values.at(word.substr(at + 1, end - at - 1));
    from = end + 1;
  }
  return out + word.substr(from);
}

}  // namespace

CommandTemplate::CommandTemplate(std::string_view text, const std::vector<std::string>& names) {
  size_t groups = 0, group = 0;
  bool named = false;
  for (RawWord& raw : split(text)) {
    if (!raw.empty() && is_plain(raw.front(), '[')) {
      if (group != 0) refuse("has brackets in brackets");
      group = ++groups;
      named = false;
      raw.erase(raw.begin());
    }
    const bool last = group != 0 && !raw.empty() && is_plain(raw.back(), ']');
    if (last) raw.pop_back();
    Word word = {text_of(raw), names_in(text_of(raw), names), group};
    named = named || !word.names.empty();
    if (group == 0 || !word.text.empty()) words_.push_back(std::move(word));
    if (!last) continue;
    if (!named) refuse("has brackets without a name in braces: they would say nothing");
    group = 0;
  }
  if (group != 0) refuse("has a [ without its ]");
  if (words_.empty() || words_[0].group != 0) refuse("names no program");
}

// Outside of brackets all words are used.
bool CommandTemplate::is_used(size_t group, const Values& values) const {
  return group == 0 || std::all_of(words_.begin(), words_.end(), [&](const Word& word) {
           return word.group != group || std::all_of(word.names.begin(), word.names.end(),
                                                     [&](const std::string& name) { return values.contains(name); });
         });
}

bool CommandTemplate::has_outside(const std::string& name) const {
  return std::any_of(words_.begin(), words_.end(),
                     [&](const Word& word) { return word.group == 0 && contains(word.names, name); });
}

std::optional<std::string> CommandTemplate::lacks(const Values& values) const {
  for (const auto& [name, value] : values) {
    const bool has_place = std::any_of(words_.begin(), words_.end(),
                                       [&, &name = name](const Word& word) { return contains(word.names, name); });
    if (!has_place) return name;
  }
  for (const Word& word : words_) {
    for (const std::string& name : word.names) {
      if (word.group == 0 && !values.contains(name)) return name;
    }
  }
  return std::nullopt;
}

std::vector<std::string> CommandTemplate::fill(const Values& values) const {
  std::vector<std::string> out;
  for (const Word& word : words_) {
    if (is_used(word.group, values)) out.push_back(filled(word.text, values));
  }
  return out;
}

}  // namespace gradcodec
