// Where verify's messages come from: a dump under a scheme, or a file beside the dump that it was made from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/partners.h"
#include "format/trials.h"

namespace gradcodec {

// Bytes that should come back as they are.
class ByteCheck {
 public:
  virtual ~ByteCheck() = default;
  // What is wrong with these elements; empty if nothing. Thread-safe.
  virtual std::string compare(Range range) const = 0;
};

class VerifyBench {
 public:
  virtual ~VerifyBench() = default;
  virtual const Schema& schema() const = 0;
  virtual uint64_t trials() const = 0;
  virtual bool knows_encoder() const = 0;                // CheckOptions::knows_encoder
  virtual std::string outside() const = 0;               // CheckOptions::outside
  virtual std::string why_not(size_t tensor) const = 0;  // why a tensor is not tested; empty if it is
  virtual bool carries_bytes(size_t tensor) const = 0;
  virtual bool has_stages(size_t tensor) const = 0;        // a scheme over a scheme, which may have laws of its own
  virtual std::vector<std::string> left_over() const = 0;  // names of tensors that no message has
  virtual std::unique_ptr<ValueTrials> open_values(size_t tensor) = 0;  // not thread-safe, as Source::open
  virtual std::unique_ptr<ByteCheck> open_bytes(size_t tensor) = 0;     // likewise
};

// R messages of workers of one seed, rehearsed where the scheme's draws are secret (SchemeChoice::rehearsed). Of a
// scheme that remembers, with options.memory_of, they are those of the scheme behind it, of the values that it would
// code now; what is remembered stays. `source` outlives it.
class EncodingBench final : public VerifyBench {
 public:
  EncodingBench(Source& source, const CompressOptions& options, uint64_t trials);
  const Schema& schema() const override { return schema_; }
  uint64_t trials() const override { return trials_; }
  bool knows_encoder() const override { return true; }
  std::string outside() const override { return ""; }
  std::string why_not(size_t) const override { return ""; }
  std::vector<std::string> left_over() const override { return {}; }
  bool carries_bytes(size_t tensor) const override { return choices_[tensor].scheme->carries_bytes(); }
  bool has_stages(size_t tensor) const override { return choices_[tensor].inner != nullptr; }
  std::unique_ptr<ValueTrials> open_values(size_t tensor) override;
  std::unique_ptr<ByteCheck> open_bytes(size_t tensor) override;

 private:
  TensorPlan plan(size_t tensor) const;

  Source& source_;
  const CompressOptions options_;
  uint64_t trials_;
  Schema schema_;
  std::vector<SchemeChoice> choices_;
};

// One message that is there. `choice`: what compress was given, or null. All outlive it.
class StoredBench final : public VerifyBench {
 public:
  // Throws Error(usage) if `choice` is not the scheme of any tensor of the file, and what match_tensors throws.
  StoredBench(const StoredMessage& message, Source& dump, const SchemeChoice* choice,
              std::optional<float> shared_scale);
  const Schema& schema() const override { return message_.schema(); }
  uint64_t trials() const override { return 1; }
  bool knows_encoder() const override { return message_.message().digests; }  // which were compared
  std::string outside() const override;
  std::string why_not(size_t tensor) const override;
  std::vector<std::string> left_over() const override { return partners_.only_in_dump; }
  bool carries_bytes(size_t tensor) const override { return message_.decoder(tensor) == nullptr; }
  bool has_stages(size_t tensor) const override { return message_.decoder(tensor)->inner() != nullptr; }
  std::unique_ptr<ValueTrials> open_values(size_t tensor) override;
  std::unique_ptr<ByteCheck> open_bytes(size_t tensor) override;

 private:
  const StoredMessage& message_;
  Source& dump_;
  const SchemeChoice* choice_;
  std::optional<float> shared_scale_;
  std::string chosen_;  // its stored text
  MessageId id_;
  Partners partners_;
};

}  // namespace gradcodec
