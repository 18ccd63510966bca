// verify: are a scheme's promises kept on these tensors? The job over files; the statistics are in codec/checks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "codec/checks/finding.h"
#include "format/pipeline.h"
#include "format/stored_message.h"

namespace gradcodec {

struct VerifyOptions {
  CompressOptions compress;  // scheme, coder, seed, which tensors, chunks, threads, memory
  uint64_t trials = 64;      // R >= 1
  double alpha = 1e-6;       // chance that any honest test of any tensor is called broken, in (0, 1)
  double margin = 0.01;      // of bias along x
  uint64_t messages = 100;   // whose mean is to gain from more of them
};

// Receives the findings of each tensor, and of the narrowing of 16-bit ones, in the dump's order.
using TakeFindings = std::function<void(TensorFindings&&)>;

// R messages of workers w to w + R - 1 (w of the options, or 0) through the real path, and every check and test
// (spec/verify.md). A scheme that remembers is tested with what options.compress.memory_of has, which stays as it is.
// Tensors that go by raw are compared byte for byte. The same for any number of threads. Throws Error
// of reading and preparing; Error(limit) if a chunk does not fit into the memory.
void verify_scheme(Source& source, const VerifyOptions& options, Progress& progress, const TakeFindings& take);

// What one message shows, beside the dump that it was made from; of `options` alpha, margin, messages, threads and
// memory count. `choice`: the scheme as compress was given it, or null. Tensors that the dump does not have are not
// covered. Throws what StoredBench and StoredMessage::load throw.
void verify_message(const StoredMessage& message, Source& dump, const SchemeChoice* choice,
                    const VerifyOptions& options, Progress& progress, const TakeFindings& take);

}  // namespace gradcodec
