// The messages that `verify` puts to the test, one tensor at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "codec/checks/trials.h"
#include "format/stored_message.h"
#include "format/tensor_codec.h"

namespace gradcodec {

// Messages of one tensor under a lossy scheme, decoded to float32.
class ValueTrials : public Trials {
 public:
  void load(uint64_t trial, Range range, bool whole_path, Sample& sample) const override;
  bool targets_vary() const override { return before() != Decoder::Before::nothing; }
  bool transforms() const override { return before() == Decoder::Before::transform; }

  // What is promised beside the laws; nothing if that is not known.
  virtual const std::optional<Promise>& promise() const = 0;
  virtual const Tensor& tensor() const = 0;

  // Of a message that is ready. `encoder`: null if there is only what it made.
  virtual const Decoder& decoder(uint64_t trial) const = 0;
  virtual const Encoder* encoder(uint64_t trial) const = 0;
  Decoder::Before before() const { return decoder(0).before(); }

  // The float32 values of a chunk of a message into work.values, and its code. Faults go to `sample`.
  virtual void decode(uint64_t trial, Range range, bool whole_path, Workspace& work, Sample& sample) const = 0;
  virtual kernels::Draws narrowing(uint64_t trial) const = 0;  // the draws of narrowing to 16 bits

  // Makes every message ready, by that many threads; else the first load does it.
  virtual void prepare(unsigned threads) const = 0;
};

// R messages, each with the draws of its own worker, encoded anew whenever a chunk of one is asked for.
class EncodedTrials final : public ValueTrials {
 public:
  // Message r is that of worker `plan.message.worker` (0 if none) + r, and of step + r too if workers share draws of
  // it; `plan.scheme` takes floats. Prepares the first message, which reads the tensor; throws what that throws.
  EncodedTrials(const TensorPlan& plan, std::unique_ptr<TensorData> data, uint64_t count, Nonfinite nonfinite);

  uint64_t size() const override { return tensor_->size(); }
  uint64_t chunk_len() const override { return plan_.chunk_len; }
  uint64_t count() const override { return messages_.size(); }
  std::vector<uint64_t> periods() const override;

  const std::optional<Promise>& promise() const override { return promise_; }
  const Tensor& tensor() const override { return *tensor_; }
  const Decoder& decoder(uint64_t trial) const override { return encoder(trial)->decoder(); }
  const Encoder* encoder(uint64_t trial) const override {
    return messages_[static_cast<size_t>(trial)].encoder->scheme();
  }
  void decode(uint64_t trial, Range range, bool whole_path, Workspace& work, Sample& sample) const override;
  kernels::Draws narrowing(uint64_t trial) const override;
  void prepare(unsigned threads) const override;

 private:
  struct Prepared {
    std::unique_ptr<TensorEncoder> encoder;
    std::unique_ptr<TensorDecoder> decoder;
    std::string fault;  // of the stored parameters
  };
  static std::string too_far(const Prepared& message);
  MessageId id(uint64_t trial) const;
  void prepare_one(uint64_t trial) const;
  void through_coder(const Prepared& message, uint64_t trial, Range range, Workspace& work, Sample& sample) const;

  TensorPlan plan_;
  Nonfinite nonfinite_;
  std::shared_ptr<const DumpTensor> tensor_;
  mutable std::vector<Prepared> messages_;
  mutable std::once_flag prepared_;
  std::optional<Promise> promise_;
  bool shares_draws_ = false;
};

// The one message that a file is, beside the dump that it was made from.
class StoredTrials final : public ValueTrials {
 public:
  // Tensor `tensor` of the message, of a lossy scheme, and its values. `choice`: what compress was given, if that is
  // known; then the file's parameters must be those that it stores, and its promise is put to the test. Levels may be
  // kept ones: the file's are tried too.
  StoredTrials(const StoredMessage& message, size_t tensor, std::unique_ptr<DumpTensor> values, const MessageId& id,
               const SchemeChoice* choice, std::optional<float> shared_scale);

  uint64_t size() const override { return values_->size(); }
  uint64_t chunk_len() const override { return chunk_len_; }
  uint64_t count() const override { return 1; }
  std::vector<uint64_t> periods() const override;

  const std::optional<Promise>& promise() const override { return promise_; }
  const Tensor& tensor() const override { return *values_; }
  const Decoder& decoder(uint64_t) const override { return *message_.decoder(number_); }
  const Encoder* encoder(uint64_t) const override { return encoder_.get(); }
  void decode(uint64_t trial, Range range, bool whole_path, Workspace& work, Sample& sample) const override;
  kernels::Draws narrowing(uint64_t trial) const override;
  void prepare(unsigned) const override {}

 private:
  std::unique_ptr<Encoder> prepared(const SchemeChoice& choice, Inputs inputs) const;

  const StoredMessage& message_;
  size_t number_;
  std::unique_ptr<DumpTensor> values_;
  uint64_t chunk_len_;
  Random random_;
  std::unique_ptr<Encoder> encoder_;  // of the choice
  std::optional<Promise> promise_;
  std::string parameters_fault_;
};

// What a first stage draws of the same messages (Decoder::Before::draw). The target is the tensor.
class FirstTrials final : public Trials {
 public:
  explicit FirstTrials(const ValueTrials& last) : last_(last) {}
  uint64_t size() const override { return last_.size(); }
  uint64_t chunk_len() const override { return last_.chunk_len(); }
  uint64_t count() const override { return last_.count(); }
  std::vector<uint64_t> periods() const override { return last_.periods(); }
  void load(uint64_t trial, Range range, bool whole_path, Sample& sample) const override;

 private:
  const ValueTrials& last_;
};

// The narrowing of the same messages to the tensor's own 16-bit type. The target is the float32 reconstruction.
class NarrowedTrials final : public Trials {
 public:
  NarrowedTrials(const ValueTrials& wide, DType type) : wide_(wide), type_(std::move(type)) {}
  uint64_t size() const override { return wide_.size(); }
  uint64_t chunk_len() const override { return wide_.chunk_len(); }
  uint64_t count() const override { return wide_.count(); }
  std::vector<uint64_t> periods() const override { return wide_.periods(); }
  void load(uint64_t trial, Range range, bool whole_path, Sample& sample) const override;

 private:
  const ValueTrials& wide_;
  DType type_;
};

}  // namespace gradcodec
