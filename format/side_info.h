// Side information from a file: the float32 values of the tensors of a dump, or of a .gradz message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "format/dumps/source.h"
#include "format/files.h"
#include "format/layout.h"
#include "format/pipeline.h"

namespace gradcodec {

class SideInfo {
 public:
  // Of a dump that is open; its floats become float32.
  static std::shared_ptr<SideInfo> from_dump(const std::shared_ptr<RandomFile>& file, std::unique_ptr<Source> source);

  // Of a message: makes every check that decompress makes, and keeps the decoded float32 values in a temporary file.
  // Throws what decompress throws, Error(usage) if it needs side information itself.
  static std::shared_ptr<SideInfo> from_message(const std::shared_ptr<RandomFile>& file, unsigned threads,
                                                uint64_t memory);

  const RandomFile& file() const { return *file_; }

  // The values for that tensor; lives as long as needed. Thread-safe. Throws Error(bad_input) naming the file and the
  // tensor if there is none of its name, or it has another shape, or is not of floats.
  std::shared_ptr<const Tensor> of(const TensorInfo& info) const;

  // What a message's MESSAGE records of it: END's check of a message; of a dump a hash of the values for those tensors
  // of `schema` that need some (spec/container.md, section 12).
  uint64_t digest(const Schema& schema) const;

  // Throws Error(bad_input) if the message recorded the digest of another.
  void check(const Schema& schema, const Message& message) const;

 private:
  explicit SideInfo(std::shared_ptr<RandomFile> file) : file_(std::move(file)) {}

  std::shared_ptr<RandomFile> file_;
  std::shared_ptr<Source> source_;
  std::map<std::string, size_t, std::less<>> names_;
  mutable std::mutex mutex_;               // of source_->open
  std::optional<uint64_t> message_check_;  // END's
};

// The options' side_of. The result holds `side`, which may be null.
std::function<std::shared_ptr<const Tensor>(const TensorInfo&)> side_of(std::shared_ptr<const SideInfo> side);

}  // namespace gradcodec
