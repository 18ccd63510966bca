// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>

#include "cli/coding.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/numbers.h"
#include "cli/privacy.h"
#include "cli/progress.h"
#include "cli/side.h"
#include "format/bare.h"
#include "format/index_set.h"
#include "format/kept_levels.h"
#include "format/metadata.h"
#include "format/state.h"
#include "format/unsent.h"

namespace gradcodec {
namespace {

struct CompressArguments : CodingArguments {
  CommonOptions common;
  PrivacyArguments privacy;
  SideArguments side;
  std::string input, output, metadata, schema, levels_from, state, at;
  bool force = false, to_stdout = false, bare = false;
};

// The schema that both sides agreed on, which must be this dump's.
Schema agreed_schema(const CompressArguments& args, const Source& source) {
  Schema schema = read_schema_file(args.schema, args.common.memory_limit());
  const std::vector<TensorInfo>& tensors = source.tensors();
  bool equal = tensors.size() == schema.tensors.size();
  for (size_t i = 0; equal && i < tensors.size(); ++i) {
    const TensorInfo& info = schema.tensors[i].info;
    equal = info.name == tensors[i].name && info.dtype == tensors[i].dtype && info.shape == tensors[i].shape;
  }
  if (!equal) throw Error(Exit::usage, "the dump's tensors are not those of the schema").in_file(args.schema);
  return schema;
}

// For each scheme of the schema the choice to encode with: the user's where it is stored as that text.
std::vector<SchemeChoice> choices_of(const Schema& schema, const CompressArguments& args, const SchemeChoice& chosen) {
  std::vector<SchemeChoice> choices;
  const bool given = !args.bare || !args.scheme.empty();
  for (const StoredScheme& stored : schema.schemes) {
    if (given && stored.text == chosen.stored_text()) {
      choices.push_back(chosen);
      continue;
    }
    try {
      choices.push_back(parse_scheme(stored.text));  // complete by itself: raw, dqsg
    } catch (const Error&) {
      throw Error(Exit::usage, "the schema's scheme is '" + stored.text +
                                   "', with parameters that are not stored: give --scheme " + stored.text + "...")
          .in_file(args.schema);
    }
  }
  return choices;
}

// What the schema has settled cannot be asked for otherwise.
void check_bare(const CompressArguments& args, const CompressOptions& options) {
  if (args.bare != !args.schema.empty()) throw Error(Exit::usage, "--bare and --schema FILE go together");
  if (!args.bare) return;
  if (!args.include.empty() || !args.exclude.empty() || !args.min_elements.empty() || !args.metadata.empty()) {
    throw Error(Exit::usage,
                "the schema says which tensors have which scheme, and a bare message holds no metadata: --include, "
                "--exclude, --min-elements and --metadata have no place beside --bare");
  }
  const Schema schema = read_schema_file(args.schema, options.memory);
  const auto fail = [&](const std::string& text) { throw Error(Exit::usage, text).in_file(args.schema); };
  if (!args.chunk.empty() && options.chunk_log2 != schema.chunk_log2) {
    fail("the schema's chunks are --chunk-log2 " + std::to_string(schema.chunk_log2));
  }
  std::string texts;
  bool known = args.scheme.empty();
  for (const StoredScheme& stored : schema.schemes) {
    const Coder& asked = options.coder_of(*parse_stored_scheme(stored.text).scheme);
    if ((!args.coder.empty() || !args.level.empty()) && stored.coder != asked.id()) {
      fail("the schema's coder is not '" + std::string(asked.name()) + "'");
    }
    known |= stored.text == options.scheme.stored_text();
    texts += (texts.empty() ? "" : ", ") + stored.text;
  }
  if (!known) fail("the schema's schemes are " + texts + ", not '" + options.scheme.stored_text() + "'");
}

std::string output_path(const CompressArguments& args) {
  if (args.to_stdout) return "-";
  if (!args.output.empty()) return args.output;
  if (args.input == "-") return "-";
  return args.input + (args.bare ? ".bare" : ".gradz");
}

void report(const CompressArguments& args, const CompressOptions& options, const Schema& schema,
            const OutputFile& output) {
  uint64_t values = 0;
  for (const SchemaTensor& tensor : schema.tensors) values += tensor.info.size();
  const uint64_t before = total_bytes(schema);
  const auto after = static_cast<double>(output.position());
  std::string line = escaped(output.name()) + ": " + with_commas(values) + " values, " + with_commas(before) + " -> " +
                     with_commas(output.position()) + " bytes";
  const double ratio = before == 0 || after == 0 ? 1 : static_cast<double>(before) / after;
  if (before > 0)
    line += ", " + fixed(std::max(ratio, 1 / ratio), 2) + (ratio >= 1 ? " times smaller" : " times larger");
  if (values > 0) line += ", " + fixed(8 * after / static_cast<double>(values), 3) + " bits a value";
  const bool seeded = args.bare || plan_message(schema, options.id).seed;
  if (seeded && (args.seed.empty() || args.common.verbose)) line += ", seed " + std::to_string(options.id.seed);
  args.common.say(line);
}

// What decompress would refuse should be known while the dump is still at hand.
void warn_beyond(const CompressArguments& args, const Progress& progress) {
  if (progress.beyond_type == 0) return;
  args.common.say(with_commas(progress.beyond_type) +
                  " values of f2 tensors decode to more than f2 can hold (65504): decompress will need --dtype f4");
}

// What decompress will make of this side information.
void report_side(const CompressArguments& args, const SideFit& fit, bool checked, const std::string& furthest) {
  if (fit.size() == 0) return;
  const std::string largest = "the largest |x - y| is " + short_number(fit.largest(), 4) + " of the limit" +
                              (furthest.empty() ? "" : ", in tensor '" + escaped(furthest) + "'");
  if (fit.wrong() == 0) {
    args.common.say("side information: every value is decoded right with it; " + largest);
    return;
  }
  args.common.say("side information: " + share_text(fit.wrong(), fit.size()) + " are decoded wrongly with it, " +
                  share_text(fit.beyond(), fit.size()) + " are beyond the limit; " + largest);
  args.common.say("near enough would be --scheme " + near_enough(fit, checked));
}

// `side` and `set`: what the message is made beside or answers, or null. Returns END's check; 0 of a bare message.
uint64_t run_job(const CompressArguments& args, CompressOptions options, Source& source, const Schema& schema,
                 uint64_t previous, const SideInfo* side, const IndexSet* set, OutputFile& output) {
  const std::vector<SchemeChoice> choices = choices_of(schema, args, options.scheme);
  SideFit fit;
  std::string furthest;
  if (side != nullptr) {
    options.take_fit = [&](const TensorInfo& info, const SideFit& tensor) {
      if (tensor.largest() > fit.largest()) furthest = info.name;
      fit.merge(tensor);
    };
  }
  Progress progress;
  progress.total = total_bytes(schema);
  uint64_t end_check = 0;
  {
    const ProgressLine line(progress, args.common.quiet);
    if (args.bare) {
      BareWriter writer(output, schema, options.id);
      compress(source, schema, choices, options, writer, progress);
    } else {
      ContainerWriter writer(output);
      Message message = plan_message(schema, options.id, previous);
      if (side != nullptr) message.side = side->digest(schema);
      if (set != nullptr) message.side = set->check;
      writer.begin(schema, source.tree(), metadata_block("gradcodec " GRADCODEC_VERSION, args.metadata), message);
      compress(source, schema, choices, options, writer, progress);
      end_check = writer.end_check();
    }
  }
  warn_beyond(args, progress);
  for (const auto& [tensor, text] : progress.warnings) args.common.say("tensor '" + escaped(tensor) + "': " + text);
  report_side(args, fit, is_checked(options.scheme), furthest);
  return end_check;
}

// Secret draws have no seed, and messages of them nothing to tell them apart by.
void check_private(const CompressArguments& args, const CompressOptions& options) {
  args.privacy.check(options.scheme);
  if (!options.scheme.is_private() || args.seed.empty()) return;
  if (options.scheme.scheme->release(options.scheme.params).secret) {
    throw Error(Exit::usage, "--seed would betray the noise of scheme '" + args.scheme +
                                 "', which is secret and cannot be made again");
  }
}

// The message whose levels are kept; null if none are.
std::unique_ptr<const StoredMessage> levels_message(const CompressArguments& args, const CompressOptions& options) {
  if (args.levels_from.empty()) return nullptr;
  Progress progress;
  return std::make_unique<const StoredMessage>(args.levels_from, options.threads, options.memory, progress);
}

// What the scheme remembers; null if it remembers nothing. The message is of the state's worker, step and seed.
std::unique_ptr<StateFile> open_state(const CompressArguments& args, CompressOptions& options, const Schema& schema,
                                      const Origin& origin) {
  const Scheme& scheme = *options.scheme.scheme;
  options.warns = true;
  if (args.state.empty()) {
    if (!options.scheme.remembers()) return nullptr;
    args.common.say("scheme '" + std::string(scheme.name()) +
                    "' remembers nothing without --state FILE: this is the first step, and the last");
    return nullptr;
  }
  auto state = std::make_unique<StateFile>(args.state, args.demand(options, schema), options.id.seed, origin.mode,
                                           options.memory);
  const StateFacts& facts = state->facts();
  options.id = {facts.seed, facts.worker, facts.step};
  options.memory_of = [&state = *state](const TensorInfo& info) { return state.remembered().of(info.name); };
  options.warns = facts.previous == 0;
  return state;
}

// The set that is to be answered; null if none is. Then the scheme is `at`, alone or over another.
std::shared_ptr<const IndexSet> set_to_answer(CompressArguments& args) {
  if (!args.at.empty() && args.scheme.empty()) args.scheme = "at";
  require_set(args.scheme, !args.at.empty());
  if (args.at.empty()) return nullptr;
  if (args.bare || !args.include.empty() || !args.exclude.empty() || !args.min_elements.empty()) {
    throw Error(Exit::usage,
                "the index set says which tensors are answered, and the message which set: --include, --exclude, "
                "--min-elements and --bare have no place beside --at");
  }
  return open_set(args.at, args.common);
}

// What of a worker's state the set asks for: of this worker, and of the step that was sketched. `state` is filled, and
// outlives what is returned.
std::unique_ptr<Source> open_unsent(const CompressArguments& args, const std::shared_ptr<RandomFile>& file,
                                    const IndexSet& set, StoredState& state, CompressOptions& options) {
  if (!args.seed.empty() || !args.worker.empty() || !args.step.empty() || !args.state.empty()) {
    throw Error(
        Exit::usage,
        "a state knows its seed, worker and step: --seed, --worker, --step and --state have no place beside it");
  }
  state = read_state(file, options.memory);
  check_round(state.facts, state.remembered, set);
  options.id = {state.facts.seed, state.facts.worker, set.step};
  return unsent(state.remembered);
}

int run_compress(CompressArguments args) {
  const std::shared_ptr<const IndexSet> set = set_to_answer(args);
  CompressOptions options = args.options(args.common);
  if (set) options.places_of = [&set](const TensorInfo& info) { return set->mask_of(info); };
  if (set && options.id.step && set->step && *options.id.step != *set->step) {
    throw Error(Exit::usage, "--step " + args.step + ": the index set is of step " + std::to_string(*set->step) +
                                 ", and an answer is of the step of what it answers");
  }
  if (set) options.id.step = set->step ? set->step : options.id.step;
  check_private(args, options);
  check_bare(args, options);
  const std::unique_ptr<const StoredMessage> levels = levels_message(args, options);
  if (!args.side.path.empty()) require_side(options.scheme, args.scheme, true);
  const std::shared_ptr<const SideInfo> side = args.side.open(args.input, args.as_bf16, args.common);
  options.side_of = side_of(side);
  const std::shared_ptr<RandomFile> file = RandomFile::open(args.input);
  args.common.say_machine();
  if (args.scheme.empty() && !args.bare) {
    args.common.say("scheme " + std::string(kDefaultScheme) +
                    " (unbiased, a tenth of the energy as noise); --scheme chooses");
  }
  if ((!args.worker.empty() || !args.step.empty()) && args.seed.empty() && args.state.empty()) {
    args.common.say("--worker and --step tell draws of one --seed apart; without it every run has a seed of its own");
  }
  try {
    StoredState remembered;
    const bool of_state = set && is_message(*file);
    std::unique_ptr<Source> source =
        of_state ? open_unsent(args, file, *set, remembered, options) : args.open(file, args.common);
    if (set) source = asked_for(std::move(source), *set);
    const Schema schema = args.bare ? agreed_schema(args, *source) : plan_schema(*source, options);
    args.complete(options, *source, schema, file->name());
    if (levels) options.kept_levels = keep_levels(*levels, schema);
    const std::unique_ptr<StateFile> state = open_state(args, options, schema, file->origin());
    std::vector<Origin> others;
    if (args.bare) others.push_back(InputStream(args.schema).origin());
    if (levels) others.push_back(levels->file().origin());
    if (side) others.push_back(side->file().origin());
    if (set) others.push_back(InputStream(args.at).origin());
    if (state) others.push_back(InputStream(args.state).origin());
    OutputFile output(output_path(args), args.force, file->origin(), others);
    // A pipe is not given the end of a message that is of no one state of its input.
    options.before_end = [&] {
      file->check_unchanged();
      if (side) side->file().check_unchanged();
    };
    const uint64_t end_check =
        run_job(args, options, *source, schema, state ? state->facts().previous : 0, side.get(), set.get(), output);
    if (state) {
      output.be_durable();
      state->keep();
    }
    output.commit();
    if (state) state->commit(end_check);
    report(args, options, schema, output);
    say_privacy(args.common, args.privacy, options.scheme, schema);
  } catch (Error& error) {
    if (error.code() != Exit::usage) error.in_file(file->name());
    throw;
  }
  return 0;
}

}  // namespace

Command add_compress(CLI::App& root) {
  auto args = std::make_shared<CompressArguments>();
  CLI::App& app = *root.add_subcommand("compress", "a dump (.npy, .npz, HDF5) into a .gradz file");
  app.add_option("input", args->input, "the dump; with --at also a state of momentum; - is standard input")
      ->type_name("DUMP|STATE")
      ->required();
  app.add_option("-o,--output", args->output, "the .gradz file; - is standard output [INPUT.gradz, INPUT.bare]")
      ->type_name("GRADZ");
  app.add_flag("-c,--stdout", args->to_stdout, "write to standard output")->excludes("--output");
  app.add_flag("-f,--force", args->force, "replace an existing output");
  args->CodingArguments::declare(app);
  app.add_option("--levels-from", args->levels_from,
                 "a .gradz file of the same scheme, whose levels are taken instead of fitting some (alq, amq)")
      ->type_name("GRADZ");
  app.add_option("--state", args->state,
                 "what the scheme remembers from step to step; made by the first one, replaced with each output")
      ->type_name("STATE");
  args->side.declare(app,
                     "of ndqsg: the dump or .gradz file that will be its side information: says whether that is near "
                     "enough, and lets decompress take no other");
  app.add_option("--at", args->at,
                 "the index set of decompress --indices: only the values at its places, exactly or as --scheme at/... "
                 "codes them; both sides have the places. Of a state: what was sketched and is not sent yet")
      ->type_name("SET");
  app.add_option("--metadata", args->metadata, "JSON to keep in the file")->type_name("JSON");
  app.add_flag("--bare", args->bare, "no names and shapes in the file: both sides have the schema");
  app.add_option("--schema", args->schema,
                 "the schema file of --bare (gradcodec info FILE.gradz --schema-out makes one)")
      ->type_name("SCHEMA");
  args->privacy.declare(app);
  args->common.declare(app);
  app.footer(
      "Examples:\n"
      "  gradcodec compress grads.npz                                  -> grads.npz.gradz\n"
      "  gradcodec compress grads.h5 --scheme dqsg:levels=5,bucket=512 -o g.gradz\n"
      "  gradcodec compress w2.npz --scheme ndqsg:fine=9,coarse=3 --side-info w1.npz -o w2.gradz\n"
      "  gradcodec compress grads.npz --at round.indices -o answer.gradz\n"
      "  gradcodec compress worker3.state --at round.indices -o answer.gradz\n"
      "  cat g.npy | gradcodec compress - --scheme dqsg:levels=3 --seed 7 --worker 2 --step 100 > g.gradz");
  return {&app, [args] { return run_compress(*args); }};
}

}  // namespace gradcodec
