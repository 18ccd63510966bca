// SPDX-License-Identifier: Apache-2.0
#include "codec/registry.h"

#include <algorithm>
#include <array>
#include <optional>

#include "codec/coders/elias.h"
#include "codec/coders/model.h"
#include "codec/coders/pack.h"
#include "codec/coders/rans.h"
#include "codec/coders/zstd.h"
#include "codec/presets.h"
#include "codec/schemes/adaquant.h"
#include "codec/schemes/alq.h"
#include "codec/schemes/amq.h"
#include "codec/schemes/at.h"
#include "codec/schemes/bq.h"
#include "codec/schemes/choose.h"
#include "codec/schemes/countsketch.h"
#include "codec/schemes/diana.h"
#include "codec/schemes/dither.h"
#include "codec/schemes/dqsg.h"
#include "codec/schemes/drive.h"
#include "codec/schemes/ec.h"
#include "codec/schemes/eden.h"
#include "codec/schemes/ef.h"
#include "codec/schemes/grid.h"
#include "codec/schemes/lattice.h"
#include "codec/schemes/lowrank.h"
#include "codec/schemes/mask.h"
#include "codec/schemes/maxnorm.h"
#include "codec/schemes/momentum.h"
#include "codec/schemes/multiscale.h"
#include "codec/schemes/natural.h"
#include "codec/schemes/ndqsg.h"
#include "codec/schemes/nuqsgd.h"
#include "codec/schemes/onebit.h"
#include "codec/schemes/plus.h"
#include "codec/schemes/qsgd.h"
#include "codec/schemes/randk.h"
#include "codec/schemes/raw.h"
#include "codec/schemes/rotate.h"
#include "codec/schemes/rotq.h"
#include "codec/schemes/shrink.h"
#include "codec/schemes/sign.h"
#include "codec/schemes/sum.h"
#include "codec/schemes/tbqsgd.h"
#include "codec/schemes/terngrad.h"
#include "codec/schemes/threshold.h"
#include "codec/schemes/tnqsgd.h"
#include "codec/schemes/topk.h"
#include "codec/schemes/tqsgd.h"
#include "codec/schemes/uniform.h"

namespace gradcodec {
namespace {

constexpr int kZstdLevel = 3;

[[noreturn]] void fail(const std::string& text) { throw Error(Exit::usage, text); }

template <typename T>
std::string list_of_names(std::span<const T* const> things) {
  std::string names;
  for (const T* thing : things) names += (names.empty() ? "" : ", ") + std::string(thing->name());
  return names;
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

void fill_in(const Scheme& scheme, Params& params, bool encoding) {
  for (const ParamSpec& spec : scheme.params()) {
    if (params.count(spec.name) != 0) continue;
    if (spec.required && (encoding || spec.decoder_needs)) {
      const std::string name(spec.name);
      fail("scheme '" + std::string(scheme.name()) + "' needs '" + name + "=...', " + range_text(spec) +
           ": for example " + name + "=" + example_text(spec));
    }
    if (!spec.fallback.empty()) params.emplace(spec.name, parse_value(spec, spec.fallback));
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

SchemeChoice parse(std::string_view text, bool encoding);

// Of what stands behind '/', or beside '+'.
void check_part(const SchemeChoice& part) {
  const std::string name(part.scheme->name());
  if (part.carries_bytes()) fail("'raw' stands alone");
  if (part.remembers()) fail("'" + name + "' stands first: a memory covers all that stands behind it");
  if (part.scheme == &at_scheme() || part.scheme == &mask_scheme()) {
    fail("'" + name + "' stands first: its places are those of the tensor");
  }
  if (part.takes_side()) {
    fail("'" + name + "' stands alone: side information is of the tensor, not of what a scheme over it leaves");
  }
  if (part.is_private()) fail("'" + name + "' stands alone: what a scheme over it stores would not be private");
}

// What stands behind the '/' of a/b, and whether a takes one.
void parse_inner(SchemeChoice& choice, std::optional<std::string_view> text, bool encoding) {
  const Scheme& scheme = *choice.scheme;
  const std::string name(scheme.name());
  if (!text) {
    if (scheme.inner() != Inner::required) return;
    fail("scheme '" + name + "' needs one behind it, for example " + name + "/qsgd:s=4");
  }
  if (scheme.inner() == Inner::none) fail("scheme '" + name + "' takes none behind it: it gives no values to code");
  choice.inner = std::make_shared<const SchemeChoice>(parse(*text, encoding));
  check_part(*choice.inner);
  if (choice.inner->scheme == &lowrank_scheme() && scheme.vectors().empty()) {
    fail("'lowrank' stands in front: what a scheme over it leaves of a tensor has no rows");
  }
}

// One scheme, and those behind it.
SchemeChoice parse_stack(std::string_view text, bool encoding) {
  std::optional<std::string_view> inner;
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    inner = text.substr(slash + 1);
    text = text.substr(0, slash);
  }
  const size_t colon = text.find(':');
  const Scheme& scheme = scheme_named(text.substr(0, colon));
  SchemeChoice choice{.scheme = &scheme};
  if (colon != std::string_view::npos) parse_params(scheme, text.substr(colon + 1), choice.params);
  fill_in(scheme, choice.params, encoding);
  scheme.complete(choice.params);
  scheme.check(choice.params, encoding);
  parse_inner(choice, inner, encoding);
  return choice;
}

// Whether the text's first scheme is a memory, which covers all that is behind it.
bool begins_with_memory(std::string_view text) {
  const Scheme* const first = find_scheme(text.substr(0, text.find_first_of(":/+")));
  return first != nullptr && !first->vectors().empty();
}

// Of a text that ends behind its last '+'; of several parts the first ones are added first.
SchemeChoice parse(std::string_view text, bool encoding) {
  const size_t plus = text.rfind('+');
  if (plus == std::string_view::npos || begins_with_memory(text)) return parse_stack(text, encoding);
  if (const std::string_view last = text.substr(plus + 1); !last.empty() && last[0] >= '0' && last[0] <= '9') {
    fail("'+' stands between schemes; a number is written without it: 1e3");
  }
  SchemeChoice choice{.scheme = &plus_scheme()};
  choice.inner = std::make_shared<const SchemeChoice>(parse(text.substr(0, plus), encoding));
  choice.rest = std::make_shared<const SchemeChoice>(parse_stack(text.substr(plus + 1), encoding));
  for (const SchemeChoice* part : {choice.inner.get(), choice.rest.get()}) {
    try {
      check_part(*part);
      if (part->scheme == &sum_scheme()) fail("'sum' is of messages, and no part of a sum of schemes");
    } catch (const Error& error) {
      if (encoding) throw;
      throw Error(Exit::unsupported, error.text());  // a later version may have such sums
    }
  }
  return choice;
}

// The first name of a scheme's text that is none of ours; nothing if all are.
std::optional<std::string_view> unknown_scheme(std::string_view text) {
  while (true) {
    const size_t end = text.find_first_of("/+");
    const std::string_view name = text.substr(0, std::min(end, text.find(':')));
    if (find_scheme(name) == nullptr) return name;
    if (end == std::string_view::npos) return std::nullopt;
    text.remove_prefix(end + 1);
  }
}

size_t stages_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return c == '/' || c == '+'; })) + 1;
}

std::string too_many_stages(size_t stages) {
  return "has " + std::to_string(stages) + " stages, and at most " + std::to_string(kMostStages) +
         " schemes may stand over one another or in a sum";
}

}  // namespace

std::span<const Scheme* const> all_schemes() {
  static const std::array schemes = {
      &raw_scheme(),         &choose_scheme(),   &dither_scheme(),   &dqsg_scheme(),      &lattice_scheme(),
      &qsgd_scheme(),        &terngrad_scheme(), &natural_scheme(),  &maxnorm_scheme(),   &multiscale_scheme(),
      &nuqsgd_scheme(),      &alq_scheme(),      &amq_scheme(),      &tqsgd_scheme(),     &tnqsgd_scheme(),
      &tbqsgd_scheme(),      &adaquant_scheme(), &grid_scheme(),     &uniform_scheme(),   &sign_scheme(),
      &onebit_scheme(),      &topk_scheme(),     &randk_scheme(),    &threshold_scheme(), &rotate_scheme(),
      &drive_scheme(),       &eden_scheme(),     &rotq_scheme(),     &bq_scheme(),        &ndqsg_scheme(),
      &countsketch_scheme(), &lowrank_scheme(),  &at_scheme(),       &mask_scheme(),      &shrink_scheme(),
      &ef_scheme(),          &ec_scheme(),       &momentum_scheme(), &diana_scheme()};
  return schemes;
}

std::span<const Coder* const> all_coders() {
  static const std::array coders = {&pack_coder(),        &zstd_coder(kZstdLevel), &rans_coder(),
                                    &rans_dither_coder(), &model_coder(),          &elias_coder()};
  return coders;
}

std::string coder_names() { return list_of_names(all_coders()); }

const Scheme* find_scheme(std::string_view name) {
  for (const Scheme* scheme : all_schemes()) {
    if (scheme->name() == name) return scheme;
  }
  return name == sum_scheme().name() ? &sum_scheme() : nullptr;  // of files alone: no dump is coded by it
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
  std::string names = list_of_names(all_schemes());
  for (const Preset& preset : all_presets()) names += ", " + std::string(preset.name);
  fail("there is no scheme '" + escaped(name) + "': there are " + names);
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

const Coder& coder_of(const Scheme& scheme, const CoderPair& coders) {
  if (scheme.is_private()) return pack_coder();
  return scheme.carries_bytes() ? *coders.bytes : *coders.symbols;
}

SchemeChoice parse_scheme(std::string_view given) {
  const std::string text = expand_preset(given);
  if (const size_t stages = stages_of(text); stages > kMostStages) fail("the scheme " + too_many_stages(stages));
  try {
    return parse(text, true);
  } catch (const Error& error) {
    if (unknown_scheme(text)) throw;  // its text says all
    throw Error(error.code(), "scheme '" + escaped(text) + "': " + error.text());
  }
}

SchemeChoice parse_stored_scheme(std::string_view text) {
  if (!is_scheme_text(text))
    throw Error(Exit::bad_input, "scheme text '" + escaped(text) + "' has not the form of one");
  if (unknown_scheme(text)) {
    throw Error(Exit::unsupported, "scheme '" + escaped(text) + "' is not known to this version");
  }
  if (const size_t stages = stages_of(text); stages > kMostStages) {
    throw Error(Exit::unsupported, "scheme '" + escaped(text) + "' " + too_many_stages(stages) + " in this version");
  }
  try {
    SchemeChoice choice = parse(text, false);
    if (choice.stored_text() == text) return choice;
  } catch (const Error& error) {
    const Exit code = error.code() == Exit::unsupported ? error.code() : Exit::bad_input;
    throw Error(code, "scheme text '" + escaped(text) + "': " + error.text());
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
