// What the fuzz targets share. A target is a function of bytes that must end without a crash, whatever they are; what
// it throws as an Error of bad input is its answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "codec/checksum.h"
#include "format/files.h"
#include "format/frame_walk.h"
#include "format/layout.h"
#include "format/memory_dump.h"
#include "format/pipeline.h"

namespace gradcodec::fuzz {

// As `--memory` and `--max-output` would be set for files from strangers; little, so that many are tried.
inline constexpr uint64_t kMemory = uint64_t{64} << 20, kMaxOutput = uint64_t{2} << 20;

inline ByteView bytes_of(const uint8_t* data, size_t size) { return std::as_bytes(std::span(data, size)); }

inline std::shared_ptr<RandomFile> file_of(ByteView bytes) {
  std::shared_ptr<RandomFile> file = RandomFile::in_memory("input");
  file->write_at(0, bytes);
  return file;
}

// A fault of the program: the fuzzer keeps the input.
inline void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// Runs f. What is wrong with the input is an Error; anything else that is thrown, or an Error that says there is a bug,
// is a fault.
template <typename F>
void expect_error_or_nothing(F f) {
  try {
    f();
  } catch (const Error& error) {
    demand(error.code() != Exit::bug, error.what());
  } catch (const std::bad_alloc&) {
    demand(false, "out of memory");
  }
}

// Whether decoding may go on: what a user with --max-output lets pass.
inline bool is_small(const Schema& schema) { return total_bytes(schema) <= kMaxOutput; }

// Gives every block and frame of what may be a .gradz file the check that it should have, and the tail its size, as
// far as lengths can be followed: without that, no mutated input would come past the first check.
void mend_checks(std::span<std::byte> bytes);

}  // namespace gradcodec::fuzz
