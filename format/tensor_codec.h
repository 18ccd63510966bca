// One tensor, on its way into frames and back: what a scheme, a coder and an element type are to the pipeline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "codec/checks/side_fit.h"
#include "codec/registry.h"
#include "codec/scheme.h"
#include "format/dump_tensor.h"
#include "format/writer.h"

namespace gradcodec {

// Buffers of one chunk's work, used again and again.
struct Workspace {
  uint64_t beyond_type = 0;  // decoded values that the tensor's own type cannot hold
  bool overloaded = false;   // the chunk did not become what was encoded, and was let pass (TensorPlan::on_overload)
  SideFit fit;               // of an encoder that has side information: how near it is to the chunk
  Code code;
  std::vector<float> values;
  std::vector<float> original, side, again;  // for `fit`
  std::span<float> target;                   // where a decoder puts the chunk's values instead, if it is not empty
  Bytes bytes, planes;

  // Room for a chunk's values, and where they are.
  std::span<float> decoded(uint64_t count) {
    if (target.empty()) values.resize(static_cast<size_t>(count));
    return target.empty() ? std::span(values) : target;
  }
};

// What both directions need to know of a tensor.
struct TensorPlan {
  TensorInfo info;
  SchemeChoice scheme;
  const Coder* coder = nullptr;
  MessageId message;
  uint32_t ordinal = 0;  // in the file
  uint64_t chunk_len = 0;
  std::span<const float> kept_levels = {};  // for Inputs; outlives the plan
  std::optional<float> shared_scale = {};   // likewise
  std::shared_ptr<const Tensor> side = {};  // side information, for schemes that take some
  const Memory* memory = nullptr;           // of this tensor; outlives the plan
  OnOverload on_overload = OnOverload::refuse;
  bool measures_side = false;  // an encoder tries to decode, for Workspace::fit
};

class TensorEncoder {
 public:
  virtual ~TensorEncoder() = default;
  virtual const Encoder* scheme() const { return nullptr; }  // null for `raw`, which has none
  virtual Bytes stored() const = 0;                          // the tensor's parameters

  // Appends the chunk's parameters and streams to frame.payload, sets its form (Form::coder always if `forms` is false)
  // and exceptions; returns the chunk's digest. Thread-safe.
  virtual uint64_t encode(Range range, bool forms, Workspace& work, Frame& frame) const = 0;
};

// Prepares the scheme, which reads the tensor. Throws what Scheme::prepare and TensorData::read throw. `loop` is for
// the time of the call.
std::unique_ptr<TensorEncoder> make_tensor_encoder(const TensorPlan& plan, std::unique_ptr<TensorData> data,
                                                   Nonfinite nonfinite, const Loop& loop = {});

// The same of a lossy scheme, for a tensor that others read too.
std::unique_ptr<TensorEncoder> make_value_encoder(const TensorPlan& plan, std::shared_ptr<const DumpTensor> tensor,
                                                  Nonfinite nonfinite, const Loop& loop = {});

class TensorDecoder {
 public:
  virtual ~TensorDecoder() = default;

  virtual std::string describe() const = 0;  // the tensor's parameters, for people; may be empty

  // Bytes of a chunk's parameters and streams, if its coder's output is of fixed size.
  virtual std::optional<uint64_t> payload_size(Range range) const = 0;

  // The scheme's decoder; null for `raw`, which has none.
  virtual const Decoder* scheme() const = 0;

  // The chunk's code into work.code and what it stands for into work.decoded() (float32), or into work.bytes where the
  // scheme carries bytes; `payload` is all that follows the tensor's parameters. Returns the chunk's digest, which the
  // encoder had too. Without side information that it takes it makes the checks that need none, and leaves zeros; the
  // digest is then that of no bytes. Thread-safe. Throws Error(bad_input).
  virtual uint64_t decode(ByteReader payload, Form form, std::span<const Exception> exceptions, Range range,
                          Workspace& work) const = 0;

  // What decode left in `work` as elements of the output's type: there, if they are so already, or in `room`.
  // Thread-safe. Throws Error(limit) on a value that the type cannot hold.
  virtual ByteView convert(Range range, Workspace& work, Bytes& room) const = 0;
};

// Takes the tensor's parameters from the front of `stored`. `output` is what the elements become: plan.info.dtype, or
// another float type if that is one.
std::unique_ptr<TensorDecoder> make_tensor_decoder(const TensorPlan& plan, ByteReader& stored, const DType& output);

// The same where the scheme's decoder is there already.
std::unique_ptr<TensorDecoder> make_value_decoder(const TensorPlan& plan, std::unique_ptr<Decoder> scheme,
                                                  const DType& output);

// The digest of a tensor from its chunks' in order: the low half of XXH3-64 over them.
uint32_t tensor_digest(std::span<const uint64_t> chunks);

}  // namespace gradcodec
