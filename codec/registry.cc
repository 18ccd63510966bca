// SPDX-License-Identifier: Apache-2.0
#include "codec/registry.h"

#include <array>
#include <charconv>
#include <cmath>

#include "codec/coders/elias.h"
#include "codec/coders/pack.h"
#include "codec/coders/rans.h"
#include "codec/coders/zstd.h"
#include "codec/schemes/dither.h"
#include "codec/schemes/dqsg.h"
#include "codec/schemes/raw.h"

namespace gradcodec {
namespace {

constexpr int kZstdLevel = 3;

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::usage, text); }

std::string number_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return std::string(text.data(), end);
}

template <typename T>
std::string list_of_names(std::span<const T* const> things) {
  std::string names;
  for (const T* thing : things) names += (names.empty() ? "" : ", ") + std::string(thing->name());
  return names;
}

Value parse_value(const ParamSpec& spec, std::string_view text) {
  const char* const end = text.data() + text.size();
  const std::string range = " from " + number_text(spec.min) + " to " + number_text(spec.max);
  if (spec.kind == ParamSpec::integer) {
    int64_t value = 0;
    const auto [at, error] = std::from_chars(text.data(), end, value);
    const bool whole = error == std::errc() && at == end && std::to_string(value) == text;
    if (!whole || static_cast<double>(value) < spec.min || static_cast<double>(value) > spec.max) {
      fail("'" + std::string(spec.name) + "' takes a whole number" + range + ", not '" + escaped(text) + "'");
    }
    return value;
  }
  double value = 0;
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end || !(value >= spec.min && value <= spec.max)) {
    fail("'" + std::string(spec.name) + "' takes a number" + range + ", not '" + escaped(text) + "'");
  }
  return value;
}

const ParamSpec& find_param(const Scheme& scheme, std::string_view key) {
  std::string known;
  for (const ParamSpec& spec : scheme.params()) {
    if (spec.name == key) return spec;
    known += (known.empty() ? "" : ", ") + std::string(spec.name);
  }
  const std::string hint = known.empty() ? "it takes no parameters" : "it takes " + known;
  fail("scheme '" + std::string(scheme.name()) + "' has no parameter '" + escaped(key) + "': " + hint);
}

void fill_in(const Scheme& scheme, Params& params) {
  for (const ParamSpec& spec : scheme.params()) {
    if (params.count(spec.name) != 0) continue;
    if (spec.required) fail("scheme '" + std::string(scheme.name()) + "' needs '" + std::string(spec.name) + "=...'");
    if (spec.fallback) params.emplace(spec.name, *spec.fallback);
  }
}

// `key=value,key=value` into params, which hold no defaults yet.
void parse_params(const Scheme& scheme, std::string_view text, Params& params) {
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) fail("'" + escaped(item) + "' is not KEY=VALUE");
    const ParamSpec& spec = find_param(scheme, item.substr(0, equals));
    if (!params.emplace(spec.name, parse_value(spec, item.substr(equals + 1))).second) {
      fail("'" + std::string(spec.name) + "' is given twice");
    }
    if (comma == std::string_view::npos) return;
    text.remove_prefix(comma + 1);
  }
}

// NAME or NAME:KEY=VALUE,..., each word of letters, digits, '_', '-' and '.'; '/' and '+' join several such.
bool is_scheme_text(std::string_view text) {
  const auto is_word = [](std::string_view word) {
    return !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-.") == std::string_view::npos;
  };
  while (true) {
    const size_t end = text.find_first_of("/+");
    std::string_view part = text.substr(0, end);
    const size_t colon = part.find(':');
    if (!is_word(part.substr(0, colon))) return false;
    while (colon != std::string_view::npos) {
      part.remove_prefix(part.find_first_of(":,") + 1);
      const std::string_view item = part.substr(0, part.find(','));
      const size_t equals = item.find('=');
      if (equals == std::string_view::npos || !is_word(item.substr(0, equals)) || !is_word(item.substr(equals + 1))) {
        return false;
      }
      if (part.find(',') == std::string_view::npos) break;
    }
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

SchemeChoice parse(std::string_view text, bool encoding) {
  if (text.find_first_of("/+") != std::string_view::npos) {
    fail("'/' and '+' stand for compositions of schemes, which this version does not have");
  }
  const size_t colon = text.find(':');
  const Scheme& scheme = scheme_named(text.substr(0, colon));
  SchemeChoice choice{&scheme, {}};
  if (colon != std::string_view::npos) parse_params(scheme, text.substr(colon + 1), choice.params);
  fill_in(scheme, choice.params);
  scheme.check(choice.params, encoding);
  return choice;
}

}  // namespace

std::span<const Scheme* const> all_schemes() {
  static const std::array schemes = {&raw_scheme(), &dqsg_scheme(), &dither_scheme()};
  return schemes;
}

std::span<const Coder* const> all_coders() {
  static const std::array coders = {&pack_coder(), &zstd_coder(kZstdLevel), &rans_coder(), &rans_dither_coder(),
                                    &elias_coder()};
  return coders;
}

std::string coder_names() { return list_of_names(all_coders()); }

const Scheme* find_scheme(std::string_view name) {
  for (const Scheme* scheme : all_schemes()) {
    if (scheme->name() == name) return scheme;
  }
  return nullptr;
}

const Coder* find_coder(std::string_view name) {
  for (const Coder* coder : all_coders()) {
    if (coder->name() == name) return coder;
  }
  return nullptr;
}

const Coder* find_coder(uint16_t id) {
  for (const Coder* coder : all_coders()) {
    if (coder->id() == id) return coder;
  }
  return nullptr;
}

const Scheme& scheme_named(std::string_view name) {
  if (const Scheme* scheme = find_scheme(name)) return *scheme;
  fail("there is no scheme '" + escaped(name) + "': there are " + list_of_names(all_schemes()));
}

const Coder& coder_named(std::string_view name) {
  if (const Coder* coder = find_coder(name)) return *coder;
  fail("there is no coder '" + escaped(name) + "': there are " + coder_names());
}

CoderPair coders_for_level(unsigned level) {
  // Of zstd at levels 2 to 9: those whose size falls on every real gradient at hand; not all do.
  constexpr std::array kEffort = {2, 2, 2, 2, 7, 10, 13, 16};
  if (level == 0 || level > 9) fail("levels go from 1 to 9");
  if (level == 1) return {&pack_coder(), &pack_coder()};
  return {level < 4 ? &rans_coder() : &rans_dither_coder(), &zstd_coder(kEffort[level - 2])};
}

std::string SchemeChoice::stored_text() const {
  std::string text(scheme->name());
  char separator = ':';
  for (const ParamSpec& spec : scheme->params()) {
    const auto found = params.find(spec.name);
    if (!spec.decoder_needs || found == params.end()) continue;
    const int64_t value = std::get<int64_t>(found->second);
    if (spec.fallback == value) continue;
    text += separator + std::string(spec.name) + "=" + std::to_string(value);
    separator = ',';
  }
  return text;
}

SchemeChoice parse_scheme(std::string_view text) {
  try {
    return parse(text, true);
  } catch (const Error& error) {
    if (find_scheme(text.substr(0, text.find(':'))) == nullptr) throw;  // the text says all
    throw Error(error.code(), "scheme '" + escaped(text) + "': " + error.text());
  }
}

SchemeChoice parse_stored_scheme(std::string_view text) {
  if (!is_scheme_text(text))
    throw Error(Exit::bad_input, "scheme text '" + escaped(text) + "' has not the form of one");
  if (find_scheme(text.substr(0, text.find_first_of(":/+"))) == nullptr ||
      text.find_first_of("/+") != std::string_view::npos) {
    throw Error(Exit::unsupported, "scheme '" + escaped(text) + "' is not known to this version");
  }
  try {
    SchemeChoice choice = parse(text, false);
    if (choice.stored_text() == text) return choice;
  } catch (const Error& error) {
    throw Error(Exit::bad_input, "scheme text '" + escaped(text) + "': " + error.text());
  }
  throw Error(Exit::bad_input, "scheme text '" + escaped(text) + "' is not in its canonical form");
}

bool glob_matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {  // let the last star take one byte more
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace gradcodec
