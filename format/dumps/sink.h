// Where tensors go: an .npy, .npz or HDF5 file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codec/bytes.h"
#include "codec/tensor.h"

namespace gradcodec {

// Receives the tensors it was made for, one after another, each as its bytes from first to last:
//   for each tensor { begin; write...; end; }  finish
// Made with the complete list of tensors. Not finished: the output does not appear.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void begin(const TensorInfo& info) = 0;
  virtual void write(ByteView elements) = 0;  // whole elements, C order, little-endian
  virtual void end() = 0;
  virtual void finish() = 0;  // closes and commits the output
};

}  // namespace gradcodec
