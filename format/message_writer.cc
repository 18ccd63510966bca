// SPDX-License-Identifier: Apache-2.0
#include "format/message_writer.h"

#include "format/writer.h"

namespace gradcodec {

uint64_t write_message(Source& source, const CompressOptions& options, const Message& facts, OutputFile& output,
                       Progress& progress) {
  const Schema schema = plan_schema(source, options);
  const std::string chosen = options.scheme.stored_text();
  std::vector<SchemeChoice> schemes;
  for (const StoredScheme& stored : schema.schemes) {
    schemes.push_back(stored.text == chosen ? options.scheme : parse_stored_scheme(stored.text));
  }
  Message message = plan_message(schema, options.id, facts.previous.value_or(0));
  message.side = facts.side;
  ContainerWriter writer(output);
  writer.begin(schema, source.tree(), {}, message);
  compress(source, schema, schemes, options, writer, progress);
  return writer.end_check();
}

}  // namespace gradcodec
