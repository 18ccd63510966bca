// How a dump is coded: the options that compress and verify share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/common.h"
#include "format/pipeline.h"
#include "format/state.h"

namespace gradcodec {

struct CodingArguments {
  std::string scheme, coder, level, seed, worker, step, nonfinite = "error", min_elements, chunk, shared_scale;
  std::string loss_attribute;
  std::vector<std::string> include, exclude;
  bool as_bf16 = false, drop_unsupported = false;

  void declare(CLI::App& app);

  // What was given but for --scheme, as a shell takes it: " --level 2 --exclude '*.bias'". Empty if nothing was.
  std::string given() const;

  // Throws Error(usage). Without --seed the system gives one.
  CompressOptions options(const CommonOptions& common) const;

  // What of the options is in the dump itself, once it is known which tensors have the scheme: losses. Throws Error.
  void complete(CompressOptions& options, const Source& source, const Schema& schema, std::string_view file) const;

  // What a state of the worker whose message this is must be (--state). Throws Error(usage) if the scheme remembers
  // nothing.
  StateDemand demand(const CompressOptions& options, const Schema& schema) const;

  // Opens the dump; says what is left out of it. Throws Error(usage) for a glob that matches no tensor.
  std::unique_ptr<Source> open(const std::shared_ptr<RandomFile>& file, const CommonOptions& common) const;
};

inline constexpr std::string_view kDefaultScheme = "dither:nmse=0.1";

}  // namespace gradcodec
