// What compress says of the privacy of a scheme that releases with noise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/common.h"
#include "codec/scheme.h"
#include "format/layout.h"

namespace gradcodec {

struct PrivacyArguments {
  std::string delta, clients, distance;

  void declare(CLI::App& app);

  // Throws Error(usage) on values out of range, and if any is given though the scheme is not private.
  void check(const SchemeChoice& choice) const;
};

// Epsilon with all that it rests on: for every value together by the theorem of cpSGD, and for one value alone exactly.
// Also that nothing is private, where that is so. Nothing for other schemes.
void say_privacy(const CommonOptions& common, const PrivacyArguments& args, const SchemeChoice& choice,
                 const Schema& schema);

}  // namespace gradcodec
