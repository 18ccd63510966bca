// SPDX-License-Identifier: Apache-2.0
#include "format/scheme_trial.h"

#include <chrono>

#include "codec/synopsis.h"
#include "format/crew.h"
#include "format/message_stats.h"
#include "format/message_writer.h"

namespace gradcodec {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

bool SchemeTrial::keeps(double most_nmse) const { return nmse ? *nmse <= most_nmse : max_error.value_or(0) == 0; }

SchemeTrial try_scheme(Source& source, const CompressOptions& options, Progress& progress) {
  const auto file = RandomFile::temporary();
  progress.total += total_bytes(plan_schema(source, options));
  SchemeTrial out;
  auto start = std::chrono::steady_clock::now();
  OutputFile output(file);
  write_message(source, options, {}, output, progress);
  output.commit();
  out.write_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const StoredMessage message(file, options.threads, options.memory, progress);
  out.read_seconds = seconds_since(start);
  const TensorStats whole = message_stats(message, &source, options.threads, options.memory, progress).whole;
  out.bytes = file->size();
  out.bits = whole.bits_per_value();
  out.element_bytes = whole.element_bytes;
  if (whole.comparison && whole.comparison->values) {
    out.nmse = whole.comparison->values->nmse;
    out.max_error = whole.comparison->values->max_error;
  }
  return out;
}

std::string_view promise_of(Source& source, const CompressOptions& options) {
  const Schema schema = plan_schema(source, options);
  std::string_view least = "exact";
  for (size_t i = 0; i < schema.tensors.size(); ++i) {
    const TensorInfo& info = schema.tensors[i].info;
    if (options.scheme.carries_bytes() ||
        schema.schemes[schema.tensors[i].scheme].text != options.scheme.stored_text()) {
      continue;
    }
    in_tensor(info, [&] {
      const DumpTensor tensor(info, source.open(i));
      const Inputs inputs{Random(options.id, static_cast<uint32_t>(i)), kFirstStage, uint64_t{1} << options.chunk_log2,
                          options.nonfinite};
      least = lesser_promise(least, promise_word(options.scheme.prepare(tensor, inputs)->promise()));
    });
  }
  return least;
}

}  // namespace gradcodec
