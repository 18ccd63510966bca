// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cli/coding.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/numbers.h"
#include "cli/progress.h"
#include "cli/side.h"
#include "format/aggregator.h"
#include "format/dumps/open.h"
#include "format/metadata.h"
#include "format/spool.h"

namespace gradcodec {
namespace {

struct AggregateArguments : CodingArguments {
  CommonOptions common;
  std::vector<std::string> inputs;
  SideArguments side;
  std::string output, weights, dtype, to, metadata, at;
  bool sum = false, exact = false, force = false;
};

// What the output is: a dump, a message of the mean, or a sum of symbols.
enum class Result { dump, message, sum };

bool names_message(const std::string& path) { return path.size() > 6 && path.substr(path.size() - 6) == ".gradz"; }

Result result_of(const AggregateArguments& args) {
  const bool dump = args.to.empty() ? dump_kind_of(args.output).has_value() : args.to != "gradz";
  if (!args.scheme.empty()) {
    if (dump) throw Error(Exit::usage, "--scheme makes a message, not a dump: name the output .gradz");
    return Result::message;
  }
  return !dump && (args.to == "gradz" || names_message(args.output)) ? Result::sum : Result::dump;
}

// Options of a message say nothing to what is none.
void check_options(const AggregateArguments& args, Result result) {
  if (result == Result::message) return;
  const bool message_options = !args.seed.empty() || !args.worker.empty() || !args.step.empty() ||
                               !args.include.empty() || !args.exclude.empty() || !args.min_elements.empty() ||
                               !args.chunk.empty() || !args.shared_scale.empty() || args.nonfinite != "error";
  if (message_options) {
    throw Error(Exit::usage,
                "--seed, --worker, --step, --include, --exclude, --min-elements, --nonfinite, --shared-scale and "
                "--chunk-log2 are for the message that --scheme makes");
  }
  if (result == Result::dump && (!args.coder.empty() || !args.level.empty() || !args.metadata.empty())) {
    throw Error(Exit::usage, "--coder, --level and --metadata are for a .gradz file");
  }
}

std::vector<double> parse_weights(const AggregateArguments& args) {
  std::vector<double> out;
  if (args.weights.empty()) return out;
  std::string_view left = args.weights;
  while (true) {
    const size_t comma = left.find(',');
    out.push_back(parse_real(left.substr(0, comma), "--weights", 0, 0x1p53));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  if (out.size() != args.inputs.size()) {
    throw Error(Exit::usage, "--weights has " + std::to_string(out.size()) + " numbers for " +
                                 std::to_string(args.inputs.size()) + " messages");
  }
  return out;
}

std::vector<TensorInfo> output_tensors(const Aggregator& all, const std::optional<DType>& dtype) {
  std::vector<TensorInfo> out;
  for (const SchemaTensor& tensor : all.schema().tensors) out.push_back(output_info(tensor.info, dtype));
  return out;
}

Bytes common_tree(const AggregateArguments& args, const Aggregator& all) {
  bool differs = false;
  const Bytes& tree = all.tree(differs);
  if (differs) args.common.say("left out, as they are not the same in all messages: attributes and links of HDF5");
  return tree;
}

void run_sum(const AggregateArguments& args, Aggregator& all, const CoderPair& coders, OutputFile& output,
             Progress& progress) {
  ContainerWriter writer(output);
  writer.begin(all.sum_schema(coders), common_tree(args, all),
               metadata_block("gradcodec " GRADCODEC_VERSION, args.metadata), all.sum_message(), FileKind::sum);
  all.run(writer, coders, progress);
  output.commit();
}

void run_dump(const AggregateArguments& args, Aggregator& all, const std::optional<DType>& dtype, OutputFile& output,
              Progress& progress) {
  const std::optional<DumpKind> named = args.to.empty() ? std::nullopt : dump_kind_of("." + args.to);
  const DumpKind kind = named ? *named : dump_kind_of(args.output).value_or(all.schema().origin);
  const Bytes tree = common_tree(args, all);
  if (kind != DumpKind::hdf5) say_what_stays(args.common, tree);
  const std::unique_ptr<Sink> sink = make_sink(kind, output, output_tensors(all, dtype), tree);
  all.run(*sink, progress);
  sink->finish();
}

// The dump that there would be, compressed.
void run_message(const AggregateArguments& args, Aggregator& all, const CompressOptions& options,
                 const std::optional<DType>& dtype, OutputFile& output, Progress& progress) {
  Spool spool(all.schema().origin, common_tree(args, all), output_tensors(all, dtype));
  for (const std::string& glob : args.include) require_match(glob, spool.tensors());
  for (const std::string& glob : args.exclude) require_match(glob, spool.tensors());
  all.run(spool, progress);
  const Schema schema = plan_schema(spool, options);
  std::vector<SchemeChoice> choices;
  for (const StoredScheme& stored : schema.schemes) {
    choices.push_back(stored.text == options.scheme.stored_text() ? options.scheme : parse_scheme(stored.text));
  }
  Message message = plan_message(schema, options.id);
  if (options.places_of) message.side = all.set()->check;
  ContainerWriter writer(output);
  writer.begin(schema, spool.tree(), metadata_block("gradcodec " GRADCODEC_VERSION, args.metadata), message);
  compress(spool, schema, choices, options, writer, progress);
  output.commit();
}

std::string report(const AggregateArguments& args, const Aggregator& all, Result result, const OutputFile& output) {
  uint64_t values = 0;
  for (const SchemaTensor& tensor : all.schema().tensors) values += tensor.info.size();
  std::string line = escaped(output.name()) + ": " + (args.sum ? "the sum of " : "the mean of ") +
                     std::to_string(args.inputs.size()) + (args.inputs.size() == 1 ? " file, " : " files, ") +
                     with_commas(values) + " values";
  if (result != Result::dump) line += ", " + with_commas(output.position()) + " bytes";
  return line;
}

int run_aggregate(const AggregateArguments& args) {
  const Result result = result_of(args);
  check_options(args, result);
  CompressOptions coding = args.options(args.common);
  AggregateOptions options;
  options.mean = !args.sum;
  options.weights = parse_weights(args);
  options.exact = args.exact || result == Result::sum;
  options.dtype = float_type_named(args.dtype);
  if (options.dtype && result == Result::sum)
    throw Error(Exit::usage, "--dtype is for dumps: a sum has its messages' types");
  options.threads = args.common.thread_count();
  options.memory = args.common.memory_limit();
  options.side = args.side.open(args.inputs[0], args.as_bf16, args.common);
  options.set = open_set(args.at, args.common);
  if (args.scheme == "at" || args.scheme.starts_with("at/")) {
    require_set(args.scheme, options.set != nullptr);
    coding.places_of = [set = options.set](const TensorInfo& info) { return set->mask_of(info); };
    if (!coding.id.step) coding.id.step = options.set->step;
  }
  args.common.say_machine();

  Aggregator all(args.inputs, options);
  for (const std::string& names : all.shared_keys()) {
    args.common.say(names +
                    " have the same seed, worker and step, and so the same draws: their errors do not average "
                    "out (compress each with a --worker of its own)");
  }
  if (const std::vector<std::string>& apart = all.sketches_apart(); !apart.empty()) {
    args.common.say(
        "tensor '" + escaped(apart[0]) + "'" +
        (apart.size() == 1 ? "" : " and " + with_commas(apart.size() - 1) + " more") +
        ": not all are sketches of one seed and step with one --scheme: what each says is averaged, not the "
        "tables");
  }
  std::vector<Origin> origins = all.origins();
  if (options.side) origins.push_back(options.side->file().origin());
  if (options.set) origins.push_back(InputStream(args.at).origin());
  OutputFile output(args.output, origins, args.force);
  Progress progress;
  progress.total = total_bytes(all.schema()) * (result == Result::message ? 2 : 1);
  {
    const ProgressLine line(progress, args.common.quiet);
    if (result == Result::sum) run_sum(args, all, coding.coders, output, progress);
    if (result == Result::dump) run_dump(args, all, options.dtype, output, progress);
    if (result == Result::message) run_message(args, all, coding, options.dtype, output, progress);
  }
  args.common.say(report(args, all, result, output));
  return 0;
}

}  // namespace

Command add_aggregate(CLI::App& root) {
  auto args = std::make_shared<AggregateArguments>();
  CLI::App& app = *root.add_subcommand("aggregate", "the mean of many .gradz files, in one pass over each");
  app.add_option("inputs", args->inputs, "the .gradz files, of the same tensors; - is standard input")
      ->type_name("GRADZ")
      ->required();
  app.add_option("-o,--output", args->output,
                 "a dump, its kind by its suffix; or a .gradz file: of the mean, under --scheme, or else the sum of "
                 "symbols, or tables, that add up undecoded; - is standard output")
      ->type_name("DUMP|GRADZ")
      ->required();
  app.add_flag("-f,--force", args->force, "replace an existing output");
  app.add_flag("--sum", args->sum, "the sum instead of the mean");
  app.add_option("--weights", args->weights, "of each file, as 1,2,0.5 [1 each]")->type_name("LIST");
  args->side.declare(app, "for what is coded by ndqsg: a dump or .gradz file, for all of them the same");
  app.add_option("--at", args->at,
                 "the index set that all the messages answer (compress --at); --scheme at makes such an answer of the "
                 "mean")
      ->type_name("SET");
  app.add_flag("--exact-sum", args->exact, "add symbols, as for a .gradz file without --scheme, for any output");
  app.add_option("--dtype", args->dtype, "element type of float tensors: f2, bf16, f4 or f8 [as they were]")
      ->type_name("WORD:{f2,bf16,f4,f8}");
  app.add_option("--to", args->to, "kind of the output, whatever its name: npy, npz, h5 or gradz")
      ->type_name("WORD")
      ->check(CLI::IsMember({"npy", "npz", "h5", "hdf5", "gradz"}));
  args->CodingArguments::declare(app);
  for (const char* of_dumps : {"--loss-attribute", "--as-bf16", "--drop-unsupported"}) {
    app.remove_option(app.get_option(of_dumps));
  }
  app.get_option("--scheme")->description("make a message of the mean: NAME:KEY=VALUE,... (gradcodec schemes)");
  app.add_option("--metadata", args->metadata, "JSON to keep in the .gradz file")->type_name("JSON");
  args->common.declare(app);
  app.footer(
      "Examples:\n"
      "  gradcodec aggregate worker*.gradz -o mean.npz\n"
      "  gradcodec aggregate a.gradz b.gradz --weights 600,400 -o mean.gradz --scheme dqsg:levels=5\n"
      "  gradcodec aggregate shared-scale*.gradz -o sum.gradz          (maxnorm, multiscale with --shared-scale)\n"
      "  gradcodec aggregate sketch*.gradz -o sum.gradz                (countsketch under one --seed and --step)\n"
      "  gradcodec aggregate answer*.gradz --at round.indices --scheme at -o answer.gradz");
  return {&app, [args] { return run_aggregate(*args); }};
}

}  // namespace gradcodec
