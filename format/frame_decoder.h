// From frames that were read to decoders of tensors and to chunks, whoever reads the frames.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "format/frame_walk.h"
#include "format/reader.h"
#include "format/tensor_codec.h"

namespace gradcodec {

// What a tensor's chunks are decoded by.
struct RestoredTensor {
  std::shared_ptr<const TensorDecoder> decoder;
  size_t params_size = 0;  // bytes of the tensor's parameters, at the front of the frame that holds them
};

// All that is thrown here names the tensor, the frame and its byte in the file.

// From the frame that holds the tensor's parameters. `output`: what its elements become. Throws Error(bad_input).
RestoredTensor restore_tensor(const TensorPlan& plan, const FramePlace& place, const FrameBytes& frame,
                              const DType& output);

// The frame's chunk, as TensorDecoder::decode leaves it in `work`. Returns its digest. Throws Error(bad_input).
uint64_t decode_frame(const TensorInfo& info, const RestoredTensor& tensor, const FramePlace& place,
                      const FrameBytes& frame, Workspace& work);

// The elements of what decode_frame left in `work`: there, or in `room`. Throws Error(limit) on a value that their
// type cannot hold.
ByteView convert_frame(const TensorInfo& info, const RestoredTensor& tensor, const FramePlace& place,
                       const FrameBytes& frame, Workspace& work, Bytes& room);

}  // namespace gradcodec
