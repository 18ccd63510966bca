// What is put to the test: messages of one tensor, chunk by chunk, with the laws that their scheme declares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codec/law.h"
#include "codec/tensor.h"

namespace gradcodec {

// One chunk of one message. Buffers are reused from load to load.
struct Sample {
  std::vector<float> target;   // what the decoded values should be near: x, or what the scheme promises instead
  std::vector<float> decoded;  // what came out
  std::vector<Law> laws;       // of decoded - target
  bool fresh = true;           // nothing of this chunk is loaded yet; load clears it
  bool same_laws = false;      // target and laws are those that the load before left here
  std::vector<std::byte> key;  // what they were made from; for Trials alone
  // What the whole path found wrong; empty if nothing.
  std::string parameters_fault;  // stored parameters that no encoder should write
  std::string decoder_fault;     // values that are not those which the encoder reported
  std::string transform_fault;   // values that are not those of the domain where laws are stated
};

// R messages of one tensor, or of one stage of it.
class Trials {
 public:
  virtual ~Trials() = default;
  virtual uint64_t size() const = 0;       // elements
  virtual uint64_t chunk_len() const = 0;  // elements a chunk; the last may have fewer
  virtual uint64_t count() const = 0;      // R
  // Whether what is decoded should be near other values in each trial, which earlier stages drew; and whether those are
  // the tensor itself in another domain, so that they must come back from it.
  virtual bool targets_vary() const { return false; }
  virtual bool transforms() const { return false; }
  virtual std::vector<uint64_t> periods() const {  // distances at which dependence is likely: a row, a bucket
    return {};
  }

  // Trial `trial` of the chunk `range`. `whole_path`: through the coder and its checks too; else by the shortest way to
  // the same values. Unless it is fresh, `sample` was loaded with another trial of this chunk before. Thread-safe.
  // Throws Error.
  virtual void load(uint64_t trial, Range range, bool whole_path, Sample& sample) const = 0;

  uint64_t chunks() const { return size() == 0 ? 1 : (size() + chunk_len() - 1) / chunk_len(); }
  Range chunk(uint64_t number) const {
    const uint64_t first = number * chunk_len();
    return {first, std::min(chunk_len(), size() - first)};
  }
};

}  // namespace gradcodec
