// A whole message in one call: what `compress` writes, for those who make messages by the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/pipeline.h"

namespace gradcodec {

// A .gradz file of every tensor of the dump, its tree included, under options.scheme. `facts`: `previous` and `side` of
// MESSAGE, the rest of which follows from the options. Returns END's check. Throws what compress throws.
uint64_t write_message(Source& source, const CompressOptions& options, const Message& facts, OutputFile& output,
                       Progress& progress);

}  // namespace gradcodec
