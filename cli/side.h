// --side-info and --at, of all commands that have them: what is needed beside a message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "cli/common.h"
#include "codec/checks/side_fit.h"
#include "format/index_set.h"
#include "format/side_info.h"
#include "format/stored_message.h"

namespace gradcodec {

struct SideArguments {
  std::string path;

  void declare(CLI::App& app, const std::string& help);

  // Null if none is given. `input`: the command's other one, which may be standard input too. Throws Error(usage) if
  // both are, and what opening and checking throws.
  std::shared_ptr<SideInfo> open(std::string_view input, bool as_bf16, const CommonOptions& common) const;
};

// The index set of --at; null if none is named.
std::shared_ptr<const IndexSet> open_set(const std::string& path, const CommonOptions& common);

// Throws Error(usage) unless --at is given with the schemes that answer it, at and at/..., and with them alone.
void require_set(const std::string& scheme, bool given);

// Throws Error(usage) unless the scheme takes side information and there is some, or neither. `text`: as it was given.
void require_side(const SchemeChoice& scheme, const std::string& text, bool given);

// Throws Error(usage) unless a scheme of the message takes side information.
void require_side_taken(const Schema& schema);

// Throws Error(usage) naming the first tensor whose values are not decoded for want of side information.
void require_values(const StoredMessage& message);

// "1,234 of 5,000 values (24.7 %)".
std::string share_text(uint64_t part, uint64_t whole);

// Schemes whose limit no element is beyond: the same fine step with a larger rho, the same rho with a larger range.
// `checked`: with check=yes.
std::string near_enough(const SideFit& fit, bool checked);

bool is_checked(const SchemeChoice& scheme);

}  // namespace gradcodec
