// SPDX-License-Identifier: Apache-2.0
#include "cli/coding.h"

#include <sys/random.h>

#include <optional>

#include "cli/losses.h"
#include "cli/numbers.h"
#include "format/dumps/open.h"

namespace gradcodec {
namespace {

constexpr uint64_t kMaxStep = (uint64_t{1} << 63) - 1;

uint64_t fresh_seed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
    throw Error(Exit::io, "the system gives no random seed: --seed");
  return seed;
}

std::optional<uint64_t> optional_count(const std::string& text, std::string_view option, uint64_t max) {
  if (text.empty()) return std::nullopt;
  return parse_count(text, option, 0, max);
}

CoderPair coders_of(const CodingArguments& args) {
  const CoderPair usual = coders_for_level(kDefaultLevel);
  if (!args.coder.empty()) {
    const Coder& coder = coder_named(args.coder);
    return {&coder, coder.suits_bytes() || args.scheme == "raw" ? &coder : usual.bytes};
  }
  if (args.level.empty()) return usual;
  return coders_for_level(static_cast<unsigned>(parse_count(args.level, "--level", 1, 9)));
}

// A word that a shell takes as it is, in quotes if there are signs that mean something to one.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./%@";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

void CodingArguments::declare(CLI::App& app) {
  app.add_option("--scheme", scheme, "how, as NAME:KEY=VALUE,... (gradcodec schemes lists them) [dither:nmse=0.1]")
      ->type_name("SCHEME");
  app.add_option("--coder", coder, "coder of the symbols, instead of --level: " + coder_names())->type_name("CODER");
  CLI::Option* named = app.get_option("--coder");
  app.add_option("--level", level,
                 "instead of --coder, 1 (fast) to 9 (small), also -1 to -9: 1 pack, 2 to 3 rans, 4 to 9 rans-dither; "
                 "tensors by raw: 1 pack, then zstd with rising effort [5]")
      ->type_name("N")
      ->excludes(named);
  for (char digit = '1'; digit <= '9'; ++digit) {
    app.add_flag_function(std::string("-") + digit, [this, digit](int64_t) { level = digit; })
        ->group("")
        ->excludes(named);
  }
  app.add_option("--seed", seed, "seed of the random numbers [from the system]")->type_name("N");
  app.add_option("--worker", worker, "this worker's number: workers of one seed draw independently")->type_name("N");
  app.add_option("--step", step, "the training step's number, likewise")->type_name("N");
  app.add_option("--include", include, "only tensors named like this GLOB are coded by the scheme, the others by raw")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_option("--exclude", exclude, "tensors named like this GLOB are coded by raw")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_option("--min-elements", min_elements, "tensors of fewer elements are coded by raw")->type_name("N");
  app.add_option("--nonfinite", nonfinite, "NaN and infinities: error, or keep them exactly, as float32 [error]")
      ->type_name("WORD")
      ->check(CLI::IsMember({"error", "keep"}));
  app.add_option("--shared-scale", shared_scale,
                 "the largest magnitude among all workers, so that their symbols can be summed (maxnorm, multiscale)")
      ->type_name("X");
  app.add_option("--loss-attribute", loss_attribute,
                 "HDF5 attribute with the loss, on the group of each step or around it, for adaquant without loss=... "
                 "(and loss0=..., then that of the first step)")
      ->type_name("ATTRIBUTE");
  app.add_option("--chunk-log2", chunk, "log2 of the elements a chunk, 12 to 22 [18]")->type_name("N");
  app.add_flag("--as-bf16", as_bf16, "two-byte void or integer elements of .npy and .npz are bfloat16");
  app.add_flag("--drop-unsupported", drop_unsupported, "leave out what a .gradz file cannot carry, and say so");
}

std::string CodingArguments::given() const {
  std::string out;
  const auto add = [&out](const char* option, const std::string& value) {
    if (!value.empty()) out += std::string(" ") + option + " " + shell_word(value);
  };
  add("--coder", coder);
  add("--level", level);
  add("--seed", seed);
  add("--worker", worker);
  add("--step", step);
  for (const std::string& glob : include) add("--include", glob);
  for (const std::string& glob : exclude) add("--exclude", glob);
  add("--min-elements", min_elements);
  if (nonfinite != "error") add("--nonfinite", nonfinite);
  add("--shared-scale", shared_scale);
  add("--loss-attribute", loss_attribute);
  add("--chunk-log2", chunk);
  if (as_bf16) out += " --as-bf16";
  if (drop_unsupported) out += " --drop-unsupported";
  return out;
}

CompressOptions CodingArguments::options(const CommonOptions& common) const {
  CompressOptions options;
  const std::string text = scheme.empty() ? std::string(kDefaultScheme) : scheme;
  options.scheme = parse_scheme(loss_attribute.empty() ? text : with_any_loss(text));
  options.coders = coders_of(*this);
  if (options.scheme.is_private() && !coder.empty() && coder != options.coder_of(*options.scheme.scheme).name()) {
    throw Error(Exit::usage, "scheme '" + scheme + "' goes by the coder pack alone, not by " + coder +
                                 ", whose sizes tell of the values");
  }
  options.id.seed = seed.empty() ? fresh_seed() : parse_count(seed, "--seed", 0, ~uint64_t{0});
  options.id.worker = optional_count(worker, "--worker", 0xFFFFFFFF);
  options.id.step = optional_count(step, "--step", kMaxStep);
  if (!shared_scale.empty()) {
    if (!options.scheme.takes_shared_scale()) {
      throw Error(Exit::usage, "--shared-scale is for schemes that share one: maxnorm, multiscale");
    }
    options.shared_scale = static_cast<float>(parse_real(shared_scale, "--shared-scale", 0, 0x1p126));
    if (*options.shared_scale == 0 && shared_scale.find_first_of("123456789") < shared_scale.find_first_of("eE")) {
      throw Error(Exit::usage, "--shared-scale " + shared_scale + " is 0 as float32: at least 1.5e-45");
    }
  }
  options.include = include;
  options.exclude = exclude;
  options.min_elements = parse_count(min_elements.empty() ? "0" : min_elements, "--min-elements", 0, ~uint64_t{0});
  options.nonfinite = nonfinite == "keep" ? Nonfinite::keep : Nonfinite::error;
  options.chunk_log2 =
      static_cast<uint8_t>(parse_count(chunk.empty() ? "18" : chunk, "--chunk-log2", kMinChunkLog2, kMaxChunkLog2));
  options.threads = common.thread_count();
  options.memory = common.memory_limit();
  return options;
}

void CodingArguments::complete(CompressOptions& options, const Source& source, const Schema& schema,
                               std::string_view file) const {
  if (loss_attribute.empty()) return;
  try {
    options.own_schemes = with_losses(scheme, loss_attribute, source, schema, options.scheme);
  } catch (Error& error) {
    error.in_file(file);
    throw;
  }
}

StateDemand CodingArguments::demand(const CompressOptions& options, const Schema& schema) const {
  if (!options.scheme.remembers()) {
    throw Error(Exit::usage,
                "--state is for schemes that remember (ef/..., ec/..., diana/..., momentum/..., and what "
                "gradcodec schemes lists as made of them)");
  }
  StateDemand demand;
  demand.memory = options.scheme.scheme->name();
  for (const std::string_view vector : options.scheme.scheme->vectors()) demand.vectors.emplace_back(vector);
  const std::string text = options.scheme.stored_text();
  for (const SchemaTensor& tensor : schema.tensors) {
    if (schema.schemes[tensor.scheme].text == text) demand.tensors.push_back(tensor.info);
  }
  if (!seed.empty()) demand.seed = options.id.seed;
  demand.worker = options.id.worker;
  demand.step = options.id.step;
  return demand;
}

std::unique_ptr<Source> CodingArguments::open(const std::shared_ptr<RandomFile>& file,
                                              const CommonOptions& common) const {
  std::unique_ptr<Source> source = open_dump(file, {as_bf16, drop_unsupported}, common);
  for (const std::string& glob : include) require_match(glob, source->tensors());
  for (const std::string& glob : exclude) require_match(glob, source->tensors());
  return source;
}

}  // namespace gradcodec
