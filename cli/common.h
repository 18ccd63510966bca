// Options that several commands have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "codec/tensor.h"
#include "format/dumps/open.h"

namespace gradcodec {

struct CommonOptions {
  std::string threads = "0", memory = "4G";
  bool quiet = false, verbose = false;

  void declare(CLI::App& app);
  unsigned thread_count() const;           // as many as there are cores for 0
  uint64_t memory_limit() const;           // bytes
  void say(std::string_view line) const;   // on stderr, unless quiet
  void warn(std::string_view line) const;  // on stderr, quiet or not
  void say_machine() const;                // if verbose: the instruction set and the number of threads
};

// `wanted` is true for names that match the glob (all, if it is empty).
bool is_wanted(const std::string& glob, const TensorInfo& info);

// Throws Error(usage) if no tensor of the list is wanted.
void require_match(const std::string& glob, const std::vector<TensorInfo>& tensors);

// Of --dtype: f2, bf16, f4 or f8; nothing for an empty text. Throws Error(usage).
std::optional<DType> float_type_named(const std::string& name);

// Of a TREE record, what no dump but HDF5 can hold and is left out; by name where it is data.
void say_what_stays(const CommonOptions& common, ByteView record);

// Opens a dump; says what is left out of it.
std::unique_ptr<Source> open_dump(const std::shared_ptr<RandomFile>& file, const SourceOptions& options,
                                  const CommonOptions& common);

// Throws Error(usage) if two of these outputs are the same; "-" is standard output, empty ones count for nothing.
void require_apart(const std::vector<std::string>& outputs);

// Whether the file begins as .gradz files do, and no dump.
bool is_message(const RandomFile& file);

}  // namespace gradcodec
