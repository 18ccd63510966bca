// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/common.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/side.h"
#include "cli/table.h"
#include "format/bare.h"
#include "format/dumps/open.h"
#include "format/dumps/tree.h"
#include "format/metadata.h"

namespace gradcodec {
namespace {

using Json = nlohmann::ordered_json;

struct InfoArguments {
  CommonOptions common;
  SideArguments side;
  std::shared_ptr<const SideInfo> opened = {};
  std::shared_ptr<const IndexSet> set = {};
  std::string input, schema_out, at;
  bool test = false, json = false, force = false, stream = false, as_bf16 = false;
};

std::string coder_text(uint16_t id) {
  const Coder* coder = find_coder(id);
  return coder == nullptr ? std::to_string(id) : std::string(coder->name());
}

// An index set's check, as it is named by.
std::string check_text(uint64_t check) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(check));
  return text;
}

std::string bits_text(uint64_t bytes, uint64_t values) {
  return values == 0 ? "-" : fixed(8 * static_cast<double>(bytes) / static_cast<double>(values), 3);
}

// A file may hold millions of tensors: of none more than what is read is kept, so that --memory bounds it.
void print_tensors(const Schema& schema, const std::vector<TensorTally>& tallies) {
  const auto row_at = [&](size_t number) -> std::vector<std::string> {
    std::vector<std::string> row = {"tensor", "type",   "shape", "scheme",    "parameters",
                                    "coder",  "frames", "bytes", "bits/value"};
    if (number > 0) {
      const SchemaTensor& tensor = schema.tensors[number - 1];
      const StoredScheme& scheme = schema.schemes[tensor.scheme];
      const TensorTally tally = tallies.empty() ? TensorTally() : tallies[number - 1];
      row = {escaped(tensor.info.name),
             tensor.info.dtype.name(),
             shape_text(tensor.info.shape),
             scheme.text,
             tally.params,
             coder_text(scheme.coder),
             with_commas(tally.frames),
             with_commas(tally.bytes()),
             bits_text(tally.bytes(), tensor.info.size())};
    }
    if (tallies.empty()) row.resize(6);
    return row;
  };
  print_table(schema.tensors.size() + 1, row_at, 6);
}

// As programs read it.
std::string kind_word(FileKind kind) {
  switch (kind) {
    case FileKind::schema:
      return "schema";
    case FileKind::state:
      return "state";
    case FileKind::indices:
      return "indices";
    case FileKind::sum:
      return "sum";
    case FileKind::message:
      break;
  }
  return "message";
}

void print_message(const ContainerReader& reader, const std::vector<TensorTally>& tallies) {
  const Schema& schema = reader.schema();
  const Message& message = reader.message();
  const bool state = reader.kind() == FileKind::state;
  std::string line = state
                         ? "a state: what is remembered before step " + std::to_string(message.step.value_or(0)) + ", "
                         : std::string();
  line += "made from " + origin_text(schema.origin) + ", chunks of " + with_commas(uint64_t{1} << schema.chunk_log2);
  if (message.seed) line += ", seed " + std::to_string(*message.seed);
  if (message.worker) line += ", worker " + std::to_string(*message.worker);
  if (message.step) line += ", step " + std::to_string(*message.step);
  if (message.previous) line += *message.previous == 0 ? ", the first" : ", after " + check_text(*message.previous);
  if (message.side) line += ", beside " + check_text(*message.side);
  std::printf("%s\n", line.c_str());
  if (!reader.metadata().empty()) std::printf("metadata %s\n", metadata_json(reader.metadata()).c_str());
  std::printf("\n");
  print_tensors(schema, tallies);
  std::printf("\n");
  uint64_t values = 0;
  for (const SchemaTensor& tensor : schema.tensors) values += tensor.info.size();
  std::vector<std::vector<std::string>> rows = {{"where the bytes went", "bytes", "bits/value"}};
  for (const auto& [name, bytes] : parts_of(reader.accounts())) {
    if (bytes > 0) rows.push_back({name, with_commas(bytes), bits_text(bytes, values)});
  }
  rows.push_back({"total", with_commas(reader.accounts().total()), bits_text(reader.accounts().total(), values)});
  print_table(rows, 1);
}

Json tensor_json(const Schema& schema, const std::vector<TensorTally>& tallies, size_t i) {
  const SchemaTensor& tensor = schema.tensors[i];
  const StoredScheme& scheme = schema.schemes[tensor.scheme];
  Json out = {{"name", tensor.info.name},
              {"dtype", tensor.info.dtype.name()},
              {"shape", tensor.info.shape},
              {"scheme", scheme.text},
              {"coder", coder_text(scheme.coder)}};
  if (tallies.empty()) return out;
  const TensorTally& tally = tallies[i];
  out["parameters"] = tally.params;
  out["frames"] = tally.frames;
  out["bytes"] = tally.bytes();
  out["payload_bytes"] = tally.payload;
  out["constant_chunks"] = tally.constant;
  out["stored_chunks"] = tally.stored;
  out["exceptions"] = tally.exceptions;
  return out;
}

// One object: what `head` has, the tensors, one at a time, and what `tail` has, if anything.
void print_json(const Json& head, const Schema& schema, const std::vector<TensorTally>& tallies, const Json& tail) {
  const std::string before = head.dump(2), after = tail.dump(2);
  std::printf("%s,\n  \"tensors\": [", before.substr(0, before.size() - 2).c_str());
  for (size_t i = 0; i < schema.tensors.size(); ++i) {
    std::string text = tensor_json(schema, tallies, i).dump(2);
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 5) text.insert(at + 1, 4, ' ');
    std::printf("%s\n    %s", i == 0 ? "" : ",", text.c_str());
  }
  std::printf("%s]%s\n", schema.tensors.empty() ? "" : "\n  ", tail.empty() ? "\n}" : ("," + after.substr(1)).c_str());
}

Json head_json(const ContainerReader& reader) {
  const Schema& schema = reader.schema();
  const Message& message = reader.message();
  Json out = {
      {"kind", kind_word(reader.kind())}, {"origin", origin_text(schema.origin)}, {"chunk_log2", schema.chunk_log2}};
  if (message.seed) out["seed"] = *message.seed;
  if (message.worker) out["worker"] = *message.worker;
  if (message.step) out["step"] = *message.step;
  if (message.previous) out["previous"] = check_text(*message.previous);
  if (message.side) out["beside"] = check_text(*message.side);
  out["check"] = check_text(reader.end_check());
  if (!reader.metadata().empty()) out["metadata"] = Json::parse(metadata_json(reader.metadata()));
  return out;
}

Json tail_json(const Accounts& accounts) {
  Json parts = Json::object();
  for (const auto& [name, bytes] : parts_of(accounts)) parts[name] = bytes;
  return {{"parts", parts}, {"total_bytes", accounts.total()}};
}

// Tensors that cannot be decoded without what was remembered of the messages before.
std::set<std::string_view> lacking_memory(const ContainerReader& reader) {
  const std::vector<KnownScheme> schemes = parse_schemes(reader.schema());
  std::set<std::string_view> out;
  for (const SchemaTensor& tensor : reader.schema().tensors) {
    if (needs_memory(reader.message(), schemes[tensor.scheme].choice)) out.insert(tensor.info.name);
  }
  return out;
}

// Reads the rest of a message; decodes it too if `test`.
std::vector<TensorTally> read_message(const InfoArguments& args, InputStream& input, ContainerReader& reader,
                                      Unsettled& unsettled) {
  const Schema& schema = reader.schema();
  check_holds_tensors(reader.kind(), schema);
  check_claims(input, schema);
  if (args.opened) args.opened->check(schema, reader.message());
  if (args.opened && !args.stream) require_side_taken(schema);
  if (args.test) check_answer(schema, reader.message(), args.set.get());
  DecompressOptions options;
  if (args.set) options.places_of = [&args](const TensorInfo& info) { return args.set->mask_of(info); };
  options.side_of = side_of(args.opened);
  options.may_lack_side = !args.opened;
  options.unsettled = &unsettled;
  const std::set<std::string_view> left_out = lacking_memory(reader);
  if (args.test && !left_out.empty()) {
    args.common.warn(escaped(input.name()) + ": values were not decoded, which needs the state of the step before (" +
                     std::to_string(left_out.size()) + " tensors)");
  }
  options.wanted = [&](const TensorInfo& info) { return args.test && left_out.count(info.name) == 0; };
  options.threads = args.common.thread_count();
  options.memory = args.common.memory_limit();
  Progress progress;
  progress.total = total_bytes(schema);
  const ProgressLine line(progress, args.common.quiet);
  std::vector<TensorTally> tallies;
  const std::vector<uint32_t> decoded =
      decompress(reader, schema, id_of(schema, reader.message(), reader.kind()), options, nullptr, progress, &tallies);
  const std::vector<uint32_t> stored = reader.finish();
  if (!args.stream) reader.expect_end_of_input();
  compare_digests(schema, options, stored, decoded);
  if (!reader.metadata().empty()) metadata_json(reader.metadata());
  if (args.test && !reader.tree().empty()) parse_tree(reader.tree());
  return tallies;
}

void show_schema_file(const InfoArguments& args, const InputStream& input, ContainerReader& reader) {
  reader.expect_end_of_input();
  if (args.json) {
    print_json({{"kind", "schema"},
                {"origin", origin_text(reader.schema().origin)},
                {"chunk_log2", reader.schema().chunk_log2},
                {"digest", std::to_string(schema_digest(reader.schema()))}},
               reader.schema(), {}, Json::object());
    return;
  }
  std::printf("%s: a schema, digest %llu\n\n", escaped(input.name()).c_str(),
              static_cast<unsigned long long>(schema_digest(reader.schema())));
  print_tensors(reader.schema(), {});
}

void say_tested(const ContainerReader& reader, const Unsettled& unsettled) {
  const size_t blind = unsettled.without_side.size();
  if (blind == 0) {
    std::printf("\nevery check%s\n", !lacking_memory(reader).empty() ? " is right; what needs the state was not decoded"
                                     : reader.message().digests      ? " and digest is right"
                                                                     : " is right; it has no digests");
    return;
  }
  std::printf(
      "\nevery check is right; the values of %s need side information, and were not decoded: --side-info FILE\n",
      blind == 1 ? ("tensor '" + escaped(reader.schema().tensors[unsettled.without_side[0]].info.name) + "'").c_str()
                 : (with_commas(blind) + " tensors").c_str());
}

void show_message(const InfoArguments& args, InputStream& input, ContainerReader& reader) {
  Unsettled unsettled;
  const std::vector<TensorTally> tallies = read_message(args, input, reader, unsettled);
  if (!args.schema_out.empty()) {
    OutputFile output(args.schema_out, args.force, input.origin());
    write_schema_file(reader.schema(), output);
    output.commit();
  }
  if (args.json) {
    Json tail = tail_json(reader.accounts());
    if (args.test) {
      Json names = Json::array();
      for (const size_t tensor : unsettled.without_side) names.push_back(reader.schema().tensors[tensor].info.name);
      tail["not_decoded"] = std::move(names);
    }
    print_json(head_json(reader), reader.schema(), tallies, tail);
  } else {
    std::printf("%s: %s%s bytes, ", escaped(input.name()).c_str(),
                reader.kind() == FileKind::message ? "" : (std::string(kind_text(reader.kind())) + " of ").c_str(),
                with_commas(reader.accounts().total()).c_str());
    print_message(reader, tallies);
    if (args.test) say_tested(reader, unsettled);
  }
}

int run_info(InfoArguments args) {
  if (!args.side.path.empty() && !args.test) throw Error(Exit::usage, "--side-info goes with --test");
  if (!args.at.empty() && !args.test) throw Error(Exit::usage, "--at goes with --test");
  args.opened = args.side.open(args.input, args.as_bf16, args.common);
  args.set = open_set(args.at, args.common);
  InputStream input(args.input);
  try {
    ContainerReader reader(input, args.common.memory_limit());
    bool any = false;
    while ((!any || args.stream) && reader.begin()) {
      if (reader.kind() == FileKind::schema) {
        show_schema_file(args, input, reader);
      } else {
        show_message(args, input, reader);
      }
      any = true;
    }
    if (!any) throw Error(Exit::bad_input, "is empty; a .gradz file was expected");
  } catch (Error& error) {
    error.in_file(input.name());
    throw;
  }
  return 0;
}

}  // namespace

Command add_info(CLI::App& root) {
  auto args = std::make_shared<InfoArguments>();
  CLI::App& app = *root.add_subcommand("info", "what is in a .gradz file, and where every byte went");
  app.add_option("input", args->input, "the .gradz or schema file; - is standard input")
      ->type_name("GRADZ|SCHEMA")
      ->required();
  app.add_flag("-t,--test", args->test, "decode everything and compare the digests too (checksums are always tested)");
  app.add_flag("--json", args->json, "for programs");
  args->side.declare(app, "with --test: the side information of what is coded by ndqsg");
  app.add_option("--at", args->at, "with --test: the index set that the message answers (compress --at)")
      ->type_name("SET");
  app.add_flag("--as-bf16", args->as_bf16,
               "two-byte void or integer elements of side information in .npy and .npz are bfloat16");
  app.add_option("--schema-out", args->schema_out, "write the schema to this file, for --bare")->type_name("SCHEMA");
  app.add_flag("-f,--force", args->force, "replace an existing schema file");
  app.add_flag("--stream", args->stream, "read message after message");
  args->common.declare(app);
  app.footer("Examples:\n  gradcodec info grads.gradz\n  gradcodec info --test grads.gradz && echo intact");
  return {&app, [args] { return run_info(*args); }};
}

}  // namespace gradcodec
