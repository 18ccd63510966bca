// Gives up what reading or writing one open file does not need, before the HDF5 library sees a byte of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gradcodec::hdf5 {

// Whether this build filters system calls: it has libseccomp, and no sanitizer, which would need more of them.
extern const bool kFiltersCalls;

// From here on this process has 2 GiB of address space and opens nothing. Where kFiltersCalls, and the kernel has
// seccomp, every system call but those that read the file (write it, if `writes`), talk on the socket and manage memory
// ends it. With a sanitizer, only the sizes of files and core dumps are limited. Its descriptors are those of
// format/dumps/hdf5_protocol.h.
void confine(bool writes);

}  // namespace gradcodec::hdf5
