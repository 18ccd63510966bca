// Texts of the command line and of files: schemes, globs, JSON.
// SPDX-License-Identifier: Apache-2.0
#include "codec/registry.h"
#include "format/metadata.h"
#include "fuzz/support.h"

using namespace gradcodec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_or_nothing([&] {
    const SchemeChoice choice = parse_scheme(text);
    const std::string stored = choice.stored_text();
    fuzz::demand(parse_stored_scheme(stored).stored_text() == stored, "a stored text is read as another");
  });
  fuzz::expect_error_or_nothing(
      [&] { fuzz::demand(parse_stored_scheme(text).stored_text() == text, "a stored text stands for another"); });
  fuzz::expect_error_or_nothing([&] {
    const Bytes block = metadata_block("fuzz", text);
    if (!block.empty()) metadata_json(block);
  });
  fuzz::expect_error_or_nothing([&] { metadata_json(as_bytes(text)); });
  const size_t half = size / 2;
  glob_matches(text.substr(0, half), text.substr(half));
  return 0;
}
