// How the library gets at the file: by a descriptor that is open already, and at no other file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/hdf5/library.h"

namespace gradcodec::hdf5 {

// The only name that the driver opens, once at a time: links to other files lead nowhere.
inline constexpr const char* kFileName = "/dump";

// A list of file access properties for H5Fopen and H5Fcreate of kFileName. `size` is that of the file. The descriptor
// stays the caller's.
Handle access_by_descriptor(int fd, uint64_t size, bool writes);

}  // namespace gradcodec::hdf5
