// Salvager: decodes what is intact of a damaged file, and says what is lost (spec/salvage.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "format/damaged_file.h"
#include "format/dumps/sink.h"
#include "format/frame_decoder.h"
#include "format/pipeline.h"

namespace gradcodec {

// Chunks in a row of one tensor that are lost for one reason.
struct Loss {
  size_t tensor = 0;
  uint64_t first = 0, last = 0, chunks = 0;  // chunks, the last included; of so many
  Range elements;
  std::string why;
};

class Salvager {
 public:
  // Decodes all chunks of wanted tensors once, to find the losses. `file` and `options` outlive this; of the options
  // wanted, dtype, side_of, places_of, on_overload and memory count. Throws Error: what id_of and check_holds_tensors
  // throw; usage where decoding needs what is not there (side information, what a decoder remembers); bad_input if the
  // header speaks of more frames than the file has bytes; limit for values that the output's type cannot hold; io.
  Salvager(const DamagedFile& file, const DecompressOptions& options, Progress& progress);

  const std::vector<Loss>& losses() const { return losses_; }  // in order
  bool is_intact(size_t tensor) const;

  // Decodes again, into a sink of the tensors wanted, as output_info has them: zeros are in the place of what is lost.
  // `omits`: into a sink of those alone that are intact.
  void write(bool omits, Sink& sink, Progress& progress);

 private:
  // take(place, why it is lost) for each chunk of the wanted tensors. Of those that are not lost, `why` is empty, and
  // they are decoded in work_.
  template <typename Take>
  void for_each_chunk(Progress& progress, Take take);
  std::string load_parameters(uint64_t frame, const FramePlace& place);
  std::string load_chunk(uint64_t frame, const FramePlace& place);
  void read(uint64_t frame, const FramePlace& place);
  void restore(const FramePlace& place);
  void look(const FramePlace& place, const std::string& why);
  void lose(const FramePlace& place, const std::string& why);
  const TensorInfo& info(const FramePlace& place) const { return schema_.tensors[place.tensor].info; }

  const DamagedFile& file_;
  const DecompressOptions& options_;
  const Schema& schema_;
  std::vector<KnownScheme> schemes_;
  MessageId id_;
  std::vector<Loss> losses_;
  std::vector<uint64_t> digests_;  // of the chunks of the tensor at work that are not lost
  bool overloaded_ = false;        // and whether one of them is not what was encoded, which was let pass
  uint64_t digest_ = 0;            // of the chunk in work_
  FrameBytes frame_;
  RestoredTensor tensor_;  // the tensor at work; none if its parameters are lost
  Workspace work_;
  Bytes room_;
};

}  // namespace gradcodec
