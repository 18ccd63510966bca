// Dumps of one array, as numpy.save writes them. The array has no name of its own: it is called "array".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/dumps/npy_header.h"
#include "format/dumps/open.h"

namespace gradcodec {

// Opens an .npy file. Throws Error: bad_input if the header is malformed or the file is not exactly as long as it says;
// unsupported, limit as read_npy_header.
std::unique_ptr<Source> open_npy(std::shared_ptr<RandomFile> file, const SourceOptions& options);

// Throws Error(usage) unless there is exactly one tensor. Its name is not kept.
std::unique_ptr<Sink> make_npy_sink(OutputFile& output, const std::vector<TensorInfo>& tensors);

// The tensor of a header, checked: what check_tensor_info wants, and that header and elements make `size` bytes
// together, no less and no more. Throws Error(bad_input).
TensorInfo npy_tensor_info(std::string name, const NpyHeader& header, uint64_t size);

// How an array's elements lie in a file: what is left to know once its TensorInfo is.
struct NpyElements {
  uint64_t offset = 0;  // bytes from file start to the first element
  bool big_endian = false;
  bool fortran_order = false;
};

// Opens the elements of an array that is all there, in C order and little-endian. Fortran order is first brought to
// C order in a temporary file. Throws Error(io), Error(bad_input).
std::unique_ptr<TensorData> open_npy_elements(std::shared_ptr<const RandomFile> file, const TensorInfo& info,
                                              const NpyElements& elements);

}  // namespace gradcodec
