// Dumps of several arrays in a zip file, as numpy.savez and numpy.savez_compressed write them. Tensor NAME is the
// member NAME.npy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/dumps/open.h"

namespace gradcodec {

// Opens an .npz file: the directory and the header of each member are read and checked. A deflated member is inflated
// to a temporary file when it is opened, a stored one is read in place; either way its checksum is verified before an
// element is given out. Members that are no arrays are refused, or left out with drop_unsupported; empty ones and
// directories are left out always. Each thing left out is a line in `dropped` (may be null).
// Throws Error: bad_input if the archive or a member is damaged; unsupported for encryption, methods other than stored
// and deflated, members that are no arrays, arrays that read_npy_header does not take; io.
std::unique_ptr<Source> open_npz(std::shared_ptr<RandomFile> file, const SourceOptions& options,
                                 std::vector<std::string>* dropped);

// Writes stored members with a fixed date: the same tensors give the same bytes, whatever library and machine, up to
// libarchive's own choices. Throws Error(unsupported) if a name is too long for a zip file.
std::unique_ptr<Sink> make_npz_sink(OutputFile& output, const std::vector<TensorInfo>& tensors);

}  // namespace gradcodec
