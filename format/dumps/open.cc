// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/open.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "codec/error.h"
#include "format/dumps/hdf5.h"
#include "format/dumps/npy.h"
#include "format/dumps/npz.h"

namespace gradcodec {
namespace {

constexpr std::string_view kNpy = "\x93NUMPY", kZip = "PK\3\4", kEmptyZip = "PK\5\6", kHdf5 = "\x89HDF\r\n\x1a\n";

bool has_at(const RandomFile& file, uint64_t offset, std::string_view expected) {
  std::array<char, 8> bytes;
  if (file.size() < expected.size() || offset > file.size() - expected.size()) return false;
  file.read_at(offset, std::as_writable_bytes(std::span(bytes).first(expected.size())));
  return std::string_view(bytes.data(), expected.size()) == expected;
}

// An HDF5 file may begin with a block of its user's, of 512, 1024, 2048, ... bytes.
bool is_hdf5(const RandomFile& file) {
  if (has_at(file, 0, kHdf5)) return true;
  for (uint64_t offset = 512; offset < file.size(); offset *= 2) {
    if (has_at(file, offset, kHdf5)) return true;
  }
  return false;
}

std::optional<DumpKind> kind_of(const RandomFile& file) {
  if (has_at(file, 0, kNpy)) return DumpKind::npy;
  if (has_at(file, 0, kZip) || has_at(file, 0, kEmptyZip)) return DumpKind::npz;
  if (is_hdf5(file)) return DumpKind::hdf5;
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Source> open_source(const std::string& path, const SourceOptions& options,
                                    std::vector<std::string>* dropped) {
  return open_source(RandomFile::open(path), options, dropped);
}

std::unique_ptr<Source> open_source(std::shared_ptr<RandomFile> file, const SourceOptions& options,
                                    std::vector<std::string>* dropped) {
  const std::string name = file->name();
  try {
    const std::optional<DumpKind> kind = kind_of(*file);
    if (kind == DumpKind::hdf5 && options.as_bf16) {
      throw Error(Exit::usage, "is HDF5, whose types stand: --as-bf16 is for .npy and .npz, leave it out");
    }
    if (kind == DumpKind::npy) return open_npy(std::move(file), options);
    if (kind == DumpKind::npz) return open_npz(std::move(file), options, dropped);
    if (kind == DumpKind::hdf5) return open_hdf5(std::move(file), options, dropped);
    if (file->size() == 0) throw Error(Exit::bad_input, "is empty; a dump (.npy, .npz or HDF5) was expected");
    if (has_at(*file, 0, "\x89GRA\r\n\x1a\n"))
      throw Error(Exit::bad_input, "is a .gradz file already: gradcodec decompress reads it");
    throw Error(Exit::bad_input, "is no dump: it begins as neither .npy nor .npz (zip) nor HDF5 files do");
  } catch (Error& error) {
    throw error.in_file(name);
  }
}

std::optional<DumpKind> dump_kind_of(std::string_view path) {
  if (path.ends_with(".npy")) return DumpKind::npy;
  if (path.ends_with(".npz")) return DumpKind::npz;
  if (path.ends_with(".h5") || path.ends_with(".hdf5")) return DumpKind::hdf5;
  return std::nullopt;
}

std::unique_ptr<Sink> make_sink(DumpKind kind, OutputFile& output, const std::vector<TensorInfo>& tensors,
                                ByteView tree) {
  try {
    switch (kind) {
      case DumpKind::npy:
        return make_npy_sink(output, tensors);
      case DumpKind::npz:
        return make_npz_sink(output, tensors);
      case DumpKind::hdf5:
        return make_hdf5_sink(output, tensors, tree);
    }
  } catch (Error& error) {
    throw error.in_file(output.name());
  }
  throw Error(Exit::unsupported, "this kind of dump cannot be written").in_file(output.name());
}

}  // namespace gradcodec
