// The messages that `verify` puts to the test: encoded from a dump, R times, by R workers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "codec/checks/trials.h"
#include "format/tensor_codec.h"

namespace gradcodec {

// R messages of one tensor under one scheme, each with the draws of its own worker, encoded anew whenever a chunk of
// one is asked for. The tensor's values are the target, or what the scheme promises instead.
class EncodedTrials : public Trials {
 public:
  // Message r is that of worker `plan.message.worker` (0 if none) + r; `plan.scheme` takes floats. Prepares the first
  // message, which reads the tensor; throws what that throws.
  EncodedTrials(const TensorPlan& plan, std::unique_ptr<TensorData> data, uint64_t count, Nonfinite nonfinite);

  uint64_t size() const override { return tensor_->size(); }
  uint64_t chunk_len() const override { return plan_.chunk_len; }
  uint64_t count() const override { return messages_.size(); }
  std::vector<uint64_t> periods() const override;
  void load(uint64_t trial, Range range, bool whole_path, Sample& sample) const override;

  // Prepares every message, by that many threads. Left out, the first load does it.
  void prepare(unsigned threads) const;

  const Promise& promise() const { return promise_; }
  const Tensor& tensor() const { return *tensor_; }
  const TensorPlan& plan() const { return plan_; }

  // The float32 values of a chunk of a message, by the path that load takes; `work.code` is its code.
  void decode(uint64_t trial, Range range, bool whole_path, Workspace& work, Sample& sample) const;
  Random random(uint64_t trial) const { return {id(trial), plan_.ordinal}; }

 private:
  struct Prepared {
    std::unique_ptr<TensorEncoder> encoder;
    std::unique_ptr<TensorDecoder> decoder;
    std::string fault;  // of the stored parameters
  };
  MessageId id(uint64_t trial) const;
  void prepare_one(uint64_t trial) const;
  void whole_path(const Prepared& message, uint64_t trial, Range range, Workspace& work, Sample& sample) const;

  TensorPlan plan_;
  Nonfinite nonfinite_;
  std::shared_ptr<const DumpTensor> tensor_;
  mutable std::vector<Prepared> messages_;
  mutable std::once_flag prepared_;
  Promise promise_;
};

// The narrowing of the same messages to the tensor's own 16-bit type. The target is the float32 reconstruction.
class NarrowedTrials final : public Trials {
 public:
  explicit NarrowedTrials(const EncodedTrials& wide) : wide_(wide) {}
  uint64_t size() const override { return wide_.size(); }
  uint64_t chunk_len() const override { return wide_.chunk_len(); }
  uint64_t count() const override { return wide_.count(); }
  std::vector<uint64_t> periods() const override { return wide_.periods(); }
  void load(uint64_t trial, Range range, bool whole_path, Sample& sample) const override;

 private:
  const EncodedTrials& wide_;
};

// Distances at which the draws of a tensor may repeat by mistake: its row, the scheme's bucket.
std::vector<uint64_t> periods_of(const TensorInfo& info, const SchemeChoice& scheme);

// Fills target, laws and key of a sample from a chunk's code; tells whether they are new.
void load_laws(const Decoder& decoder, const Tensor& target, const Code& code, Range range, Sample& sample);

}  // namespace gradcodec
