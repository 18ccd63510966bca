// Which kind of dump is it? The only file that knows them all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "format/dumps/sink.h"
#include "format/dumps/source.h"
#include "format/files.h"

namespace gradcodec {

struct SourceOptions {
  bool as_bf16 = false;           // .npy/.npz: two-byte void or unsigned integers are bfloat16
  bool drop_unsupported = false;  // leave out what no source can carry, instead of refusing the dump
};

// Opens a dump by its first bytes, not its name ("-" is stdin). Throws Error(bad_input) if they are none of the three
// kinds', Error(io), Error(usage), also for as_bf16 with HDF5.
// `dropped` receives a line for each thing left out by drop_unsupported.
std::unique_ptr<Source> open_source(const std::string& path, const SourceOptions& options,
                                    std::vector<std::string>* dropped);
// The same for a dump whose file is open already (and was spooled, if it was a pipe).
std::unique_ptr<Source> open_source(std::shared_ptr<RandomFile> file, const SourceOptions& options,
                                    std::vector<std::string>* dropped);

// By suffix: .npy, .npz, .h5, .hdf5; nothing for other names.
std::optional<DumpKind> dump_kind_of(std::string_view path);

// Makes a sink that writes to `output`. Throws Error(usage) if this kind of dump cannot hold these tensors (an .npy
// holds exactly one), Error(unsupported) if it cannot hold one of their types. `tree` is what Source::tree gave, or
// empty; kinds other than HDF5 ignore it.
std::unique_ptr<Sink> make_sink(DumpKind kind, OutputFile& output, const std::vector<TensorInfo>& tensors,
                                ByteView tree);

}  // namespace gradcodec
