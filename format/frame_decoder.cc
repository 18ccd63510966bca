// SPDX-License-Identifier: Apache-2.0
#include "format/frame_decoder.h"

#include "format/crew.h"
#include "format/forms.h"

namespace gradcodec {
namespace {

template <typename F>
auto in_frame(const TensorInfo& info, const FramePlace& place, const FrameBytes& frame, F f) {
  return in_tensor(info, [&] {
    try {
      return f();
    } catch (const Error& error) {
      throw Error(error.code(),
                  place.text() + ", at byte " + std::to_string(frame.offset) + " of the file: " + error.text());
    }
  });
}

}  // namespace

RestoredTensor restore_tensor(const TensorPlan& plan, const FramePlace& place, const FrameBytes& frame,
                              const DType& output) {
  return in_frame(plan.info, place, frame, [&] {
    ByteReader stored(frame.payload, "the frame");
    RestoredTensor tensor;
    tensor.decoder = make_tensor_decoder(plan, stored, output);
    tensor.params_size = stored.position();
    if (place.params_only) {
      stored.expect_end();
      if (frame.form != Form::coder || frame.exceptions) stored.fail("has a form though it holds parameters");
    }
    return tensor;
  });
}

uint64_t decode_frame(const TensorInfo& info, const RestoredTensor& tensor, const FramePlace& place,
                      const FrameBytes& frame, Workspace& work) {
  return in_frame(info, place, frame, [&] {
    ByteReader payload(frame.payload.subspan(place.has_params() ? tensor.params_size : 0), "the frame");
    std::vector<Exception> list;
    if (frame.exceptions) read_exceptions(payload, place.range.count, false, list);
    return tensor.decoder->decode(payload, frame.form, list, place.range, work);
  });
}

ByteView convert_frame(const TensorInfo& info, const RestoredTensor& tensor, const FramePlace& place,
                       const FrameBytes& frame, Workspace& work, Bytes& room) {
  return in_frame(info, place, frame, [&] { return tensor.decoder->convert(place.range, work, room); });
}

}  // namespace gradcodec
