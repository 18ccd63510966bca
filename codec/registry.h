// The tables of schemes and coders, and the text that names a scheme with its parameters:
//   NAME[:KEY=VALUE[,KEY=VALUE]...][/NAME...][+NAME...]     dqsg:levels=5,bucket=512   topk:k=1%/qsgd:s=4
// '/' binds tighter than '+', but a memory in front covers all: ef/topk:k=1%+sign is ef/(topk:k=1%+sign).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "codec/coder.h"
#include "codec/scheme.h"

namespace gradcodec {

std::span<const Scheme* const> all_schemes();  // that dumps are coded by
std::span<const Coder* const> all_coders();

std::string coder_names();  // all, as a list in a sentence

// Null if there is none.
const Coder* find_coder(std::string_view name);
const Coder* find_coder(uint16_t id);
const Scheme* find_scheme(std::string_view name);

// Throws Error(usage) listing the names there are.
const Scheme& scheme_named(std::string_view name);
const Coder& coder_named(std::string_view name);

// Who codes the symbols of schemes, and the bytes of tensors that go by raw.
struct CoderPair {
  const Coder* symbols;
  const Coder* bytes;
};

// 1 (fastest) to 9 (smallest). Symbols: pack, rans from 2, rans-dither from 4. Bytes: pack, then zstd at rising effort.
// Throws Error(usage) on any other level.
CoderPair coders_for_level(unsigned level);

inline constexpr unsigned kDefaultLevel = 5;

// Who of them codes that scheme. A private scheme has `pack` whatever they are.
const Coder& coder_of(const Scheme& scheme, const CoderPair& coders);

// Most schemes that may stand over one another or in a sum. All there is to gain is in two or three; and what is kept
// for each stage, and the stages' own draws, need a bound.
inline constexpr size_t kMostStages = 8;

// A user's text, which may be a preset's (codec/presets.h). Throws Error(usage) saying which part is wrong and what is
// possible.
SchemeChoice parse_scheme(std::string_view text);

// A file's text: only what stored_text writes. Throws Error(unsupported) if a scheme is unknown or there
// are more than kMostStages, else Error(bad_input).
SchemeChoice parse_stored_scheme(std::string_view text);

// Glob of the command line: * (any run, also over '/'), ? (one byte), everything else itself.
bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace gradcodec
