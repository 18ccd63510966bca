// A dump of arbitrary bytes: .npy, .npz, and HDF5 by its process.
// SPDX-License-Identifier: Apache-2.0
#include "format/dumps/open.h"
#include "fuzz/support.h"

using namespace gradcodec;

namespace {

void read_all(const std::shared_ptr<RandomFile>& file, bool as_bf16) {
  std::vector<std::string> dropped;
  const std::unique_ptr<Source> source = open_source(file, {.as_bf16 = as_bf16, .drop_unsupported = true}, &dropped);
  uint64_t total = 0;
  for (size_t i = 0; i < source->tensors().size(); ++i) {
    const TensorInfo& info = source->tensors()[i];
    if (info.byte_size() > fuzz::kMaxOutput - total) return;
    total += info.byte_size();
    const std::unique_ptr<TensorData> data = source->open(i);
    Bytes room(static_cast<size_t>(info.byte_size()));
    data->read({0, info.size()}, room);
  }
  source->tree();
}

}  // namespace

// HDF5 is looked at only where its program is found: then what is no more than a signature is bad input.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  try {
    read_all(fuzz::file_of(as_bytes("\x89HDF\r\n\x1a\n")), false);
  } catch (const Error& error) {
    fuzz::demand(error.code() == Exit::bad_input, error.what());
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = fuzz::file_of(fuzz::bytes_of(data, size));
  for (const bool as_bf16 : {false, true}) fuzz::expect_error_or_nothing([&] { read_all(file, as_bf16); });
  return 0;
}
