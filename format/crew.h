// Who does a job, and how much of it at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "codec/error.h"
#include "format/layout.h"

namespace gradcodec {

struct Crew {
  unsigned threads;
  size_t slots;  // chunks at work
};

// No more threads than frames, no more chunks than `memory` has room for. `whole`: each tensor is one chunk. `more`:
// bytes a value beside what compressing or decompressing takes. Throws Error(limit) if there is room for none.
Crew crew_for(const Schema& schema, unsigned threads, uint64_t memory, bool whole, unsigned more = 0);

// Runs f; what it throws is said to be in this tensor.
template <typename F>
auto in_tensor(const TensorInfo& info, F f) {
  try {
    return f();
  } catch (Error& error) {
    error.in_tensor(info.name);
    throw;
  }
}

// The same for the file of this name.
template <typename F>
auto in_file(std::string_view name, F f) {
  try {
    return f();
  } catch (Error& error) {
    error.in_file(name);
    throw;
  }
}

}  // namespace gradcodec
