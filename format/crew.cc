// SPDX-License-Identifier: Apache-2.0
#include "format/crew.h"

#include <algorithm>

#include "codec/registry.h"
#include "format/frame_walk.h"

namespace gradcodec {

namespace {

// Of a scheme that this version does not know nothing is worked on.
unsigned work_of(const std::string& text) {
  try {
    return parse_stored_scheme(text).work_per_value();
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

Crew crew_for(const Schema& schema, unsigned threads, uint64_t memory, bool whole, unsigned more) {
  std::vector<uint64_t> scheme_work;
  for (const StoredScheme& scheme : schema.schemes) scheme_work.push_back(work_of(scheme.text));
  uint64_t cost = 1;
  for (const SchemaTensor& tensor : schema.tensors) {
    const uint64_t len = whole ? tensor.info.size() : std::min(tensor.info.size(), schema.chunk_len(tensor));
    // Elements as bytes and once more on their way, float32 values twice, symbols, a payload of two bytes at most, and
    // what the coder (of raw's tensors a byte is a symbol) and the scheme work in.
    const uint64_t item = tensor.info.dtype.item_size();
    const StoredScheme& scheme = schema.schemes[tensor.scheme];
    const Coder* coder = find_coder(scheme.coder);
    const uint64_t coding = coder == nullptr ? 0 : coder->work_per_symbol() * (scheme.text == "raw" ? item : 1);
    const uint64_t work = coding + scheme_work[tensor.scheme] + more;
    cost = std::max(cost, item == 0 ? 1 : len * (2 * item + 12 + work));
  }
  if (cost > memory) {
    throw Error(Exit::limit,
                "a chunk takes about " + std::to_string(cost) + " bytes of memory to work on: raise --memory");
  }
  const uint64_t frames = std::max<uint64_t>(1, total_frames(schema));
  const auto used = static_cast<unsigned>(std::min({uint64_t{threads}, frames, memory / cost}));
  return {used, static_cast<size_t>(std::min(memory / cost, 3 * uint64_t{used}))};
}

}  // namespace gradcodec
