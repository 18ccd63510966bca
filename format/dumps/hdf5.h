// HDF5 dumps. The HDF5 library is in a process of its own, the program gradcodec-hdf5: see hdf5_process.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/dumps/open.h"
#include "format/dumps/sink.h"
#include "format/dumps/source.h"
#include "format/files.h"

namespace gradcodec {

// An attribute of this name on a dataset holds the tensor's name, where that cannot be a path in an HDF5 file.
inline constexpr const char* kNameAttribute = "gradcodec_name";
// An attribute of this name on the root group, where the order of tensors is not the order of traversal: for each
// dataset that is a tensor, in the order of traversal, its place in the order of tensors.
inline constexpr const char* kOrderAttribute = "gradcodec_order";

// Lists every dataset of a supported type at any depth as a tensor, in the order of traversal: depth first, a group's
// links by creation order where it is tracked, else by name; an object of several names under the first. Other files
// are never opened: external links, external storage and virtual datasets count as unsupported.
// Throws Error: bad_input for what is no HDF5 file or is damaged, and for what crashes the library; unsupported, naming
// the object, for what cannot be kept, unless options.drop_unsupported leaves it out with a line in `dropped` (which
// may be null), and where gradcodec-hdf5 is not installed; limit for HDF5 chunks over 256 MiB, groups deeper than 500,
// more than 64 MiB beside the tensors, more than 1 GiB of names, shapes out of all proportion to the file, and where
// the library wants more memory or processor time than it gets. Reading from the tensors throws the same.
std::unique_ptr<Source> open_hdf5(std::shared_ptr<RandomFile> file, const SourceOptions& options,
                                  std::vector<std::string>* dropped);

// A sink that makes an HDF5 file of the same content as the one that `tree` was taken from: equal input gives equal
// bytes. What `tree` says of tensors that are not in `tensors` is left out. Without a tree (empty), slashes in names
// make groups, which track creation order. Names that cannot be paths are stored under another path, beside
// kNameAttribute. Throws Error: unsupported for dtypes that HDF5 files of ours cannot hold, bad_input for a tree that
// is damaged or contradicts the tensors, io if the file cannot be written.
std::unique_ptr<Sink> make_hdf5_sink(OutputFile& output, const std::vector<TensorInfo>& tensors, ByteView tree);

}  // namespace gradcodec
