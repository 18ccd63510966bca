// What a scheme makes of a dump: a real message is written, read again and compared with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "format/pipeline.h"

namespace gradcodec {

struct SchemeTrial {
  uint64_t bytes = 0;                          // of the file that compress makes, all that is in it included
  std::optional<double> bits;                  // of them a value; absent if there are no values
  std::optional<double> nmse;                  // ||x' - x||^2 / ||x||^2 over all tensors of float types together
  std::optional<double> max_error;             // largest |x' - x|, likewise; both absent where not defined
  uint64_t element_bytes = 0;                  // of the dump's elements
  double write_seconds = 0, read_seconds = 0;  // of making the file; of decoding it with all checks

  bool keeps(double most_nmse) const;  // a dump of zeros, if they stay so, keeps any
};

// One message under options.scheme, into a temporary file; memory is bounded as that of compress and decompress is.
// Adds to progress.total what it will add to progress.done. Throws what compress and StoredMessage throw.
SchemeTrial try_scheme(Source& source, const CompressOptions& options, Progress& progress);

// What options.scheme promises of these very tensors, as in promise_word: where tensors differ, the least; "exact" if
// it codes none of them lossily. Prepares each, which reads it.
std::string_view promise_of(Source& source, const CompressOptions& options);

}  // namespace gradcodec
