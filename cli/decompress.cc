// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <set>

#include "cli/command.h"
#include "cli/common.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/side.h"
#include "format/bare.h"
#include "format/crew.h"
#include "format/dumps/open.h"
#include "format/heaviest.h"
#include "format/salvage.h"
#include "format/state.h"

namespace gradcodec {
namespace {

struct DecompressArguments {
  CommonOptions common;
  SideArguments side;
  std::shared_ptr<const SideInfo> opened = {};
  std::string input, output, only, dtype, to, schema, max_output, state, at, top, indices, salvage,
      on_overload = "refuse";
  bool force = false, to_stdout = false, stream = false, as_bf16 = false, heavymix = false;
};

constexpr ParamSpec kTop = {.kind = ParamSpec::amount,
                            .name = "--top",
                            .help = "how many elements are taken",
                            .min = 1,
                            .max = 0x1p53,
                            .example = "1%"};

std::optional<DumpKind> kind_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return dump_kind_of("." + name);
}

std::string suffix_of(DumpKind kind) { return kind == DumpKind::npy ? ".npy" : kind == DumpKind::npz ? ".npz" : ".h5"; }

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

// x.npz.gradz -> x.npz; x.gradz -> x with the suffix of what it was made from.
std::string output_path(const DecompressArguments& args, DumpKind origin) {
  if (!args.output.empty()) return args.output;
  if (args.input == "-") return "-";
  for (const std::string_view end : {".gradz", ".bare"}) {
    if (!ends_with(args.input, end)) continue;
    const std::string path = args.input.substr(0, args.input.size() - end.size());
    const DumpKind kind = kind_named(args.to).value_or(origin);
    const std::optional<DumpKind> said = dump_kind_of(path);
    return said && (args.to.empty() || said == kind) ? path : path + suffix_of(kind);
  }
  throw Error(Exit::usage, "the name does not end in .gradz: name the output with -o").in_file(args.input);
}

// {} in the name of a stream's output is the message's number, from 0.
std::string numbered(std::string path, uint64_t number) {
  const size_t at = path.find("{}");
  return at == std::string::npos ? path : path.replace(at, 2, std::to_string(number));
}

std::vector<TensorInfo> wanted_tensors(const Schema& schema, const DecompressOptions& options) {
  std::vector<TensorInfo> out;
  for (const SchemaTensor& tensor : schema.tensors) {
    if (options.wanted(tensor.info)) out.push_back(output_info(tensor.info, options.dtype));
  }
  return out;
}

uint64_t bytes_of(const std::vector<TensorInfo>& tensors) {
  uint64_t total = 0;
  for (const TensorInfo& info : tensors) {
    if (__builtin_add_overflow(total, info.byte_size(), &total)) return ~uint64_t{0};
  }
  return total;
}

DecompressOptions options_of(const DecompressArguments& args) {
  DecompressOptions options;
  options.wanted = [only = args.only](const TensorInfo& info) { return is_wanted(only, info); };
  options.skip_unwanted = true;
  if (args.on_overload == "keep") options.on_overload = OnOverload::keep;
  if (args.on_overload == "zero") options.on_overload = OnOverload::zero;
  if (args.on_overload == "side") options.on_overload = OnOverload::side;
  options.side_of = side_of(args.opened);
  options.threads = args.common.thread_count();
  options.memory = args.common.memory_limit();
  options.dtype = float_type_named(args.dtype);
  return options;
}

// Chunks that did not become what was encoded, and were let pass.
void say_overloads(const DecompressArguments& args, const Schema& schema, const Unsettled& unsettled) {
  for (const Unsettled::Chunk& chunk : unsettled.overloads) {
    args.common.warn("tensor '" + escaped(schema.tensors[chunk.tensor].info.name) + "': chunk " +
                     std::to_string(chunk.chunk + 1) + " of " + std::to_string(chunk.chunks) +
                     ": the side information is another one, or too far; " +
                     (args.on_overload == "keep"   ? "kept as it was decoded"
                      : args.on_overload == "zero" ? "zeros are in its place"
                                                   : "the side information is in its place"));
  }
  if (!unsettled.overloads.empty()) {
    args.common.warn(with_commas(unsettled.overloads.size()) + " chunks are not what was encoded");
  }
}

// Decodes one message into one dump. `read` decodes everything into the sink it is given and makes the last checks.
template <typename Read>
void write_dump(const DecompressArguments& args, const DecompressOptions& options, const InputStream& input,
                const Schema& schema, ByteView tree, uint64_t number, StateFile* state, Read read) {
  const std::vector<TensorInfo> tensors = wanted_tensors(schema, options);
  std::vector<TensorInfo> all;
  for (const SchemaTensor& tensor : schema.tensors) all.push_back(tensor.info);
  require_match(args.only, all);
  const uint64_t bytes = bytes_of(tensors);
  if (!args.max_output.empty() && bytes > parse_size(args.max_output, "--max-output")) {
    throw Error(Exit::limit, "the tensors take " + with_commas(bytes) + " bytes, more than --max-output");
  }
  const std::string path = args.stream ? numbered(args.output, number) : output_path(args, schema.origin);
  const std::optional<DumpKind> named = kind_named(args.to);
  const DumpKind kind = named ? *named : dump_kind_of(path).value_or(schema.origin);
  const bool whole = tensors.size() == schema.tensors.size();
  if (!whole && !tree.empty()) args.common.say("attributes and links are left out, as not all tensors are taken");
  if (kind != DumpKind::hdf5) say_what_stays(args.common, tree);

  Progress progress;
  progress.total = total_bytes(schema);
  std::vector<Origin> others;
  if (!args.schema.empty()) others.push_back(InputStream(args.schema).origin());
  if (!args.at.empty()) others.push_back(InputStream(args.at).origin());
  if (args.opened) others.push_back(args.opened->file().origin());
  if (state != nullptr) others.push_back(InputStream(args.state).origin());
  OutputFile output(path, args.force, input.origin(), others);
  if (state != nullptr) output.be_durable();
  const std::unique_ptr<Sink> sink = make_sink(kind, output, tensors, whole ? tree : ByteView());
  {
    const ProgressLine line(progress, args.common.quiet);
    read(sink.get(), progress);
    if (state != nullptr) state->keep();
    sink->finish();
  }
  args.common.say(escaped(output.name()) + ": " + std::to_string(tensors.size()) +
                  (tensors.size() == 1 ? " tensor, " : " tensors, ") + with_commas(bytes) + " bytes of elements");
}

void decompress_bare(const DecompressArguments& args, const DecompressOptions& options, InputStream& input) {
  const Schema schema = read_schema_file(args.schema, args.common.memory_limit());
  BareReader reader(input, schema, args.common.memory_limit());
  Unsettled unsettled;
  DecompressOptions own = options;
  own.unsettled = &unsettled;
  write_dump(args, own, input, schema, {}, 0, nullptr,
             [&](Sink* sink, Progress& progress) { reader.decompress_into(own, sink, progress); });
  say_overloads(args, schema, unsettled);
}

// What the decoder remembers; null if it has no need to.
std::unique_ptr<StateFile> open_state(const DecompressArguments& args, const ContainerReader& reader,
                                      const Origin& origin) {
  const Schema& schema = reader.schema();
  const std::vector<KnownScheme> schemes = parse_schemes(schema);
  const Scheme* memory = reader.kind() == FileKind::message ? memory_of(schemes) : nullptr;
  if (memory == nullptr || !memory->decoder_remembers()) {
    if (args.state.empty()) return nullptr;
    throw Error(Exit::usage, "needs no --state: its schemes remember nothing, or only where they encode");
  }
  const Message& message = reader.message();
  if (args.state.empty()) {
    if (message.previous == 0) {
      args.common.say("the first of its worker: the next ones need what '" + std::string(memory->name()) +
                      "' remembers of it, --state FILE");
      return nullptr;
    }
    throw Error(Exit::usage, "is decoded with what '" + std::string(memory->name()) +
                                 "' remembers of the messages before it: --state FILE");
  }
  if (!args.only.empty()) throw Error(Exit::usage, "--only leaves tensors out, of which --state must hear");
  StateDemand demand;
  demand.role = StateRole::decoder;
  demand.memory = memory->name();
  for (const std::string_view vector : memory->vectors()) demand.vectors.emplace_back(vector);
  for (const SchemaTensor& tensor : schema.tensors) {
    if (schemes[tensor.scheme].choice.scheme == memory) demand.tensors.push_back(tensor.info);
  }
  demand.seed = message.seed.value_or(0);
  demand.worker = message.worker;
  demand.step = message.step;
  demand.previous = message.previous;
  return std::make_unique<StateFile>(args.state, demand, 0, origin.mode, args.common.memory_limit());
}

void decompress_message(const DecompressArguments& args, DecompressOptions options, const IndexSet* set,
                        InputStream& input, ContainerReader& reader, uint64_t number) {
  const Schema& schema = reader.schema();
  check_holds_tensors(reader.kind(), schema);
  check_answer(schema, reader.message(), set);
  check_claims(input, schema);
  if (args.opened) args.opened->check(schema, reader.message());
  if (args.opened && !args.stream) require_side_taken(schema);
  const std::unique_ptr<StateFile> state = open_state(args, reader, input.origin());
  if (state) options.memory_of = [&](const TensorInfo& info) { return state->remembered().of(info.name); };
  Unsettled unsettled;
  options.unsettled = &unsettled;
  write_dump(args, options, input, schema, reader.tree(), number, state.get(), [&](Sink* sink, Progress& progress) {
    const MessageId id = id_of(schema, reader.message(), reader.kind());
    const std::vector<uint32_t> decoded = decompress(reader, schema, id, options, sink, progress);
    const std::vector<uint32_t> stored = reader.finish();
    if (!args.stream) reader.expect_end_of_input();
    compare_digests(schema, options, stored, decoded);
  });
  if (state) state->commit(reader.end_check());
  say_overloads(args, schema, unsettled);
}

// The K heaviest elements alone, as a dump, or as an index set, or both.
void decompress_heaviest(const DecompressArguments& args, const DecompressOptions& options, const IndexSet* set) {
  const HeaviestOptions wanted = {std::get<Amount>(parse_value(kTop, args.top)), args.heavymix};
  const std::shared_ptr<RandomFile> file = RandomFile::open(args.input);
  in_file(file->name(), [&] {
    InputStream input(file);
    ContainerReader reader(input, options.memory);
    if (!reader.begin()) throw Error(Exit::bad_input, "is empty; a .gradz file was expected");
    if (reader.kind() == FileKind::schema) throw Error(Exit::usage, "is a schema file: there is nothing to decompress");
    const Schema& schema = reader.schema();
    check_answer(schema, reader.message(), set);
    Progress progress;
    std::unique_ptr<StoredMessage> message;
    const Heaviest heaviest = [&] {
      const ProgressLine line(progress, args.common.quiet);
      return find_heaviest(file, schema, wanted, options, progress, message);
    }();
    std::string said = escaped(file->name()) + ": " + with_commas(heaviest.taken.size()) + " elements taken";
    if (args.heavymix) said += ", of which " + with_commas(heaviest.heavy) + " are heavy";
    args.common.say(said);
    if (!args.indices.empty()) {
      OutputFile output(args.indices, args.force, file->origin());
      write_index_set(heaviest.set(schema, reader.message()), output, options.threads, options.memory);
      output.commit();
      args.common.say(escaped(output.name()) + ": an index set of " + with_commas(output.position()) + " bytes");
    }
    if (args.output.empty() && !args.indices.empty()) return;
    write_dump(args, options, input, schema, message->tree(), 0, nullptr, [&](Sink* sink, Progress& writing) {
      write_heaviest(*message, heaviest, options.dtype, *sink, writing);
    });
  });
}

void check_heaviest(const DecompressArguments& args) {
  if (args.top.empty()) {
    if (!args.indices.empty() || args.heavymix) throw Error(Exit::usage, "--indices and --heavymix go with --top K");
    return;
  }
  if (args.stream || !args.schema.empty() || !args.only.empty()) {
    throw Error(Exit::usage, "--top is over all tensors of one message: without --only, --stream and --schema");
  }
  if (!args.indices.empty() && !args.output.empty()) require_apart({args.indices, args.output});
}

// "chunk 3 of 9, elements 524288 to 786431 of 2000000"
std::string loss_text(const Loss& loss, const TensorInfo& info) {
  std::string text = loss.first == 0 && loss.last + 1 == loss.chunks ? "all of it, "
                     : loss.first == loss.last
                         ? "chunk " + std::to_string(loss.first + 1)
                         : "chunks " + std::to_string(loss.first + 1) + " to " + std::to_string(loss.last + 1);
  if (text.back() != ' ') text += " of " + std::to_string(loss.chunks) + ", ";
  if (loss.elements.count == 0) return text + "no elements";
  return text + "elements " + std::to_string(loss.elements.first) + " to " +
         std::to_string(loss.elements.first + loss.elements.count - 1) + " of " + std::to_string(info.size());
}

// What is intact of a damaged file, as a dump. Returns whether that is all of it.
bool decompress_salvaged(const DecompressArguments& args, DecompressOptions options, const IndexSet* set) {
  const std::shared_ptr<const RandomFile> file = RandomFile::open(args.input);
  return in_file(file->name(), [&] {
    const DamagedFile damaged(file, options.memory);
    for (const std::string& note : damaged.notes()) args.common.warn(note);
    const Schema& schema = damaged.schema();
    check_answer(schema, damaged.message(), set);
    if (args.opened) args.opened->check(schema, damaged.message());
    Progress looking;
    looking.total = total_bytes(schema);
    Salvager salvager = [&] {
      const ProgressLine line(looking, args.common.quiet);
      return Salvager(damaged, options, looking);
    }();
    const bool omits = args.salvage == "omit";
    for (const Loss& loss : salvager.losses()) {
      const TensorInfo& info = schema.tensors[loss.tensor].info;
      args.common.warn("tensor '" + escaped(info.name) + "' lost " + loss_text(loss, info) + ": " + loss.why);
    }
    DecompressOptions written = options;
    if (omits) {
      std::set<std::string> intact;
      for (size_t i = 0; i < schema.tensors.size(); ++i) {
        if (salvager.is_intact(i)) intact.insert(schema.tensors[i].info.name);
      }
      written.wanted = [&, intact](const TensorInfo& info) {
        return options.wanted(info) && intact.contains(info.name);
      };
    }
    const InputStream input(file);
    write_dump(args, written, input, schema, damaged.tree(), 0, nullptr,
               [&](Sink* sink, Progress& progress) { salvager.write(omits, *sink, progress); });
    if (!salvager.losses().empty()) {
      args.common.warn(omits ? "tensors of which something was lost are left out"
                             : "zeros are in the place of what was lost");
    }
    return salvager.losses().empty();
  });
}

// The set that the message answers; null if none is given.
std::shared_ptr<const IndexSet> answered_set(const DecompressArguments& args, DecompressOptions& options) {
  if (args.at.empty()) return nullptr;
  if (!args.schema.empty()) throw Error(Exit::usage, "a bare message answers no index set: without --at");
  std::shared_ptr<const IndexSet> set = open_set(args.at, args.common);
  options.places_of = [set = set.get()](const TensorInfo& info) { return set->mask_of(info); };
  return set;
}

int run_decompress(DecompressArguments args) {
  if (args.to_stdout) args.output = "-";
  check_heaviest(args);
  if (!args.salvage.empty() && (args.stream || !args.schema.empty() || !args.state.empty() || !args.top.empty())) {
    throw Error(Exit::usage, "--salvage is for one file: without --stream, --schema, --state and --top");
  }
  if (!args.max_output.empty()) parse_size(args.max_output, "--max-output");  // refused before anything is read
  args.opened = args.side.open(args.input, args.as_bf16, args.common);
  DecompressOptions options = options_of(args);
  if (args.stream && !args.schema.empty())
    throw Error(Exit::usage, "bare messages carry no end: --stream cannot part them");
  const bool to_stdout = args.output == "-" || (args.output.empty() && args.input == "-");
  if (args.stream && !to_stdout && args.output.find("{}") == std::string::npos) {
    throw Error(Exit::usage, "--stream makes a dump a message: -o - or a name with {} for the message's number");
  }
  args.common.say_machine();
  const std::shared_ptr<const IndexSet> set = answered_set(args, options);
  if (!args.top.empty()) {
    decompress_heaviest(args, options, set.get());
    return 0;
  }
  if (!args.salvage.empty())
    return decompress_salvaged(args, options, set.get()) ? 0 : static_cast<int>(Exit::check_failed);
  InputStream input(args.input);
  bool can_salvage = false;
  try {
    if (!args.schema.empty()) {
      decompress_bare(args, options, input);
      return 0;
    }
    ContainerReader reader(input, args.common.memory_limit());
    uint64_t messages = 0;
    while ((messages == 0 || args.stream) && reader.begin()) {
      can_salvage = reader.kind() != FileKind::schema && !args.stream && args.input != "-" && !args.opened && !set;
      decompress_message(args, options, set.get(), input, reader, messages++);
    }
    if (messages == 0) throw Error(Exit::bad_input, "is empty; a .gradz file was expected");
  } catch (Error& error) {
    if (error.code() != Exit::usage) error.in_file(input.name());
    if (error.code() != Exit::bad_input || !can_salvage) throw;
    throw Error(error.code(), std::string(error.what()) + "; --salvage recovers what is intact");
  }
  return 0;
}

}  // namespace

Command add_decompress(CLI::App& root) {
  auto args = std::make_shared<DecompressArguments>();
  CLI::App& app = *root.add_subcommand("decompress", "a .gradz file back into a dump");
  app.add_option("input", args->input, "the .gradz file; - is standard input")->type_name("GRADZ")->required();
  app.add_option("-o,--output", args->output,
                 "the dump, its kind by its suffix; - is standard output [INPUT less .gradz]")
      ->type_name("DUMP");
  app.add_flag("-c,--stdout", args->to_stdout, "write to standard output")->excludes("--output");
  app.add_flag("-f,--force", args->force, "replace an existing output");
  app.add_option("--only", args->only, "only tensors named like this GLOB")->type_name("GLOB");
  app.add_option("--dtype", args->dtype, "element type of float tensors: f2, bf16, f4 or f8 [as they were]")
      ->type_name("WORD:{f2,bf16,f4,f8}");
  app.add_option("--to", args->to, "kind of dump, whatever the output's name: npy, npz or h5")
      ->type_name("WORD")
      ->check(CLI::IsMember({"npy", "npz", "h5", "hdf5"}));
  app.add_option("--state", args->state,
                 "what the decoder remembers from step to step (diana); made by the first one, replaced with each dump")
      ->type_name("STATE");
  app.add_option("--max-output", args->max_output, "refuse to write more than this many bytes of elements")
      ->type_name("SIZE");
  app.add_flag("--stream", args->stream, "read message after message, each into a dump of its own");
  app.add_flag(
         "--salvage{zero}", args->salvage,
         "of a damaged file all that is intact; what is lost is listed, and is 0 (--salvage=zero), or its tensors are "
         "left out (--salvage=omit)")
      ->check(CLI::IsMember({"zero", "omit"}));
  app.add_option("--schema", args->schema, "the schema file of a bare message")->type_name("SCHEMA");
  args->side.declare(app,
                     "for what is coded by ndqsg: a dump or .gradz file with tensors of the same names and shapes");
  app.add_option("--on-overload", args->on_overload,
                 "a chunk whose check=yes says that the side information is another one, or too far: refuse, keep what "
                 "is decoded, or put zero or the side information in its place, and say so [refuse]")
      ->type_name("WORD")
      ->check(CLI::IsMember({"refuse", "keep", "zero", "side"}));
  app.add_flag("--as-bf16", args->as_bf16,
               "two-byte void or integer elements of side information in .npy and .npz are bfloat16");
  app.add_option("--at", args->at, "the index set that the message answers (compress --at)")->type_name("SET");
  app.add_option(
         "--top", args->top,
         "only the K (or K%) elements of largest magnitude, of all sketched tensors together (of all lossy ones, "
         "if none is sketched); 0 elsewhere")
      ->type_name("K");
  app.add_option("--indices", args->indices,
                 "with --top: write what was taken as an index set to this file; then a dump only with -o")
      ->type_name("SET");
  app.add_flag("--heavymix", args->heavymix,
               "with --top: of a sketch, only what is as large as a K-th of the whole, and others at random up to K");
  args->common.declare(app);
  app.footer(
      "Examples:\n"
      "  gradcodec decompress grads.npz.gradz                -> grads.npz\n"
      "  gradcodec decompress grads.gradz -o part.h5 --only 'fc1.*'\n"
      "  gradcodec decompress sum.gradz --top 50000 --indices round.indices\n"
      "  gradcodec decompress - < g.gradz > g.npy\n"
      "  gradcodec decompress w2.gradz --side-info w1.npz\n"
      "  gradcodec decompress damaged.gradz -o rest.npz --salvage\n"
      "  cat a.gradz b.gradz | gradcodec decompress - --stream -o 'step{}.npz'");
  return {&app, [args] { return run_decompress(*args); }};
}

}  // namespace gradcodec
