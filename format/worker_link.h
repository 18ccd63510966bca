// A worker's way to a server, in memory: what `compress` and `decompress` do, step after step, with what each side
// remembers. Every message is bytes, written and read by the same code as a file is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/pipeline.h"
#include "format/remembered.h"

namespace gradcodec {

// The float32 values of some tensors, one vector each.
using TensorValues = std::vector<std::vector<float>>;

class WorkerLink {
 public:
  struct Options {
    SchemeChoice scheme;
    CoderPair coders = coders_for_level(kDefaultLevel);
    uint64_t seed = 0;
    uint64_t worker = 0;
    uint64_t min_elements = 0;  // tensors of fewer go by raw
    std::optional<float> shared_scale = {};
    uint8_t chunk_log2 = kDefaultChunkLog2;
    uint64_t memory = uint64_t{4} << 30;
    unsigned threads = 1;
  };

  // Tensors are of float32; names and shapes stay from step to step.
  WorkerLink(Options options, std::vector<TensorInfo> tensors);

  struct Delivery {
    std::shared_ptr<const RandomFile> message;  // the bytes, a whole .gradz file
    uint64_t bytes = 0;
    TensorValues decoded;  // empty unless it was decoded
    std::vector<std::string> warnings;
  };

  // Makes the message of a step and decodes it. Steps rise by one. `own_scheme`: in place of the options' scheme and
  // stored as the same text (AdaQuantFL's levels). `side`: what the decoder has. Throws what compress and decompress
  // throw; the link is of no use then.
  Delivery send(uint64_t step, const TensorValues& values, const SchemeChoice* own_scheme = nullptr,
                const std::function<std::shared_ptr<const Tensor>(const TensorInfo&)>& side = {});

  // The two halves of it: a message that only others decode (a sketch) is not decoded here.
  Delivery encode(uint64_t step, const TensorValues& values, const SchemeChoice* own_scheme = nullptr);
  TensorValues decode(const std::shared_ptr<const RandomFile>& message,
                      const std::function<std::shared_ptr<const Tensor>(const TensorInfo&)>& side = {});

  // The scales that workers agreed on, by tensor, for what is encoded from now on.
  void share_scales(std::map<std::string, float, std::less<>> scales) { shared_scales_ = std::move(scales); }

  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  // What the encoder remembers; no tensors if the scheme remembers nothing.
  Remembered& sender() { return sender_; }
  const Remembered& sender() const { return sender_; }

 private:
  Options options_;
  std::vector<TensorInfo> tensors_;
  Remembered sender_, receiver_;
  std::map<std::string, float, std::less<>> shared_scales_;
  uint64_t previous_ = 0;
};

// A message in memory: the file that compress writes. `message`: previous and side are taken from it. `end_check`, if
// not null, receives END's; `warnings` what the schemes warn of. Throws what compress throws.
std::shared_ptr<const RandomFile> encode_values(const std::vector<TensorInfo>& tensors, const TensorValues& values,
                                                const CompressOptions& options, const Message& message,
                                                uint64_t* end_check = nullptr,
                                                std::vector<std::string>* warnings = nullptr);

// Decodes a message in memory, of float tensors, to float32. Throws what decompress throws.
TensorValues decode_values(const std::shared_ptr<const RandomFile>& message, const DecompressOptions& options);

// Float tensors in memory as a dump. They outlive it.
std::unique_ptr<Source> source_of(const std::vector<TensorInfo>& tensors, const TensorValues& values);

}  // namespace gradcodec
