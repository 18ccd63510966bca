// The command line of a program, with names in braces where files and values are put.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradcodec {

// Words are split and quoted as in a shell: at spaces, with '...', "..." and \. Nothing else of a shell is meant.
// {NAME} is replaced wherever it stands, in quotes too. Words between a word that begins with an unquoted [ and one
// that ends with an unquoted ] are used only if there is something for each {NAME} in them.
class CommandTemplate {
 public:
  // `names`: those that may stand in braces. Throws Error(usage), naming what is wrong: quotes or brackets without an
  // end, brackets in brackets or without a name in them, a name that there is not, no word at all.
  CommandTemplate(std::string_view text, const std::vector<std::string>& names);

  using Values = std::map<std::string, std::string>;  // of {NAME} by NAME

  // The first name that keeps these values from being used: one that has a value but no place, or that stands outside
  // of brackets and has no value.
  std::optional<std::string> lacks(const Values& values) const;

  // The words for values of which nothing lacks.
  std::vector<std::string> fill(const Values& values) const;

  bool has_outside(const std::string& name) const;  // {NAME} stands outside of brackets

 private:
  struct Word {
    std::string text;
    std::vector<std::string> names;
    size_t group = 0;  // 0: outside of brackets
  };
  bool is_used(size_t group, const Values& values) const;

  std::vector<Word> words_;
};

}  // namespace gradcodec
