// Holds the caller of a Sink to its part.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codec/error.h"
#include "codec/tensor.h"

namespace gradcodec {

// Checks that the tensors announced come in order, each once, each with all its bytes. Throws Error(bug).
class SinkOrder {
 public:
  explicit SinkOrder(std::vector<TensorInfo> tensors) : tensors_(std::move(tensors)) {}

  void begin(const TensorInfo& info) {
    require(!open_ && next_ < tensors_.size() && tensors_[next_].name == info.name &&
                tensors_[next_].dtype == info.dtype && tensors_[next_].shape == info.shape,
            "another tensor was to be written here");
    open_ = true;
    left_ = info.byte_size();
  }

  void write(uint64_t bytes) {
    require(open_ && bytes <= left_, "more is written than the tensor holds");
    left_ -= bytes;
  }

  void end() {
    require(open_ && left_ == 0, "the tensor ends before all of it was written");
    open_ = false;
    ++next_;
  }

  void finish() const { require(!open_ && next_ == tensors_.size(), "not every tensor was written"); }

 private:
  static void require(bool held, const char* text) {
    if (!held) throw Error(Exit::bug, text);
  }

  std::vector<TensorInfo> tensors_;
  size_t next_ = 0;
  uint64_t left_ = 0;  // bytes still to come of the open tensor
  bool open_ = false;
};

}  // namespace gradcodec
